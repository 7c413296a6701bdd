//===- LateBackend.cpp - Collective backend between late devices ----------===//

#include "LateBackend.h"
#include "core/DType.h"
#include "core/Reduce.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>

namespace tpc::rt::conformance {
namespace {

std::mutex globalMutex;
std::string brokenBy;

/// State that the members of a group share.
class Rendezvous {
public:
  explicit Rendezvous(int members) : slots(members) {}

  struct Slot {
    /// A copy, because a member with a mismatching call returns at once and destroys its plan.
    CommCall call;
    const std::byte *from;
  };

  /// Runs a call with all members. Returns false if it was aborted.
  bool exchange(int index, const CommCall &call, const std::byte *from, std::byte *to) {
    slots[index] = {call, from};
    if (!arrive())
      return false;
    std::vector<std::byte> result = compute(index, call);
    if (!arrive())
      return false;
    std::copy(result.begin(), result.end(), to);
    return true;
  }

  /// Messages of one call, started together.
  struct Message {
    int from, to;
    const CommCall *call;
    std::byte *data;
  };
  bool deliver(const std::vector<Message> &messages) {
    std::unique_lock<std::mutex> lock(mutex);
    for (const Message &message : messages)
      if (message.call->kind == CommCall::Send)
        waiting[{message.from, message.to}].push_back(message);
    changed.notify_all();
    for (const Message &message : messages) {
      auto &queue = waiting[{message.from, message.to}];
      if (message.call->kind == CommCall::Send)
        continue;
      changed.wait(lock, [&] { return isAborted || !queue.empty(); });
      if (isAborted)
        return false;
      if (queue.front().call->count != message.call->count)
        throw std::runtime_error("a message is received with another size");
      std::copy_n(queue.front().data, message.call->count, message.data);
      queue.pop_front();
      changed.notify_all();
    }
    for (const Message &message : messages)
      if (message.call->kind == CommCall::Send)
        changed.wait(lock, [&] {
          auto &queue = waiting[{message.from, message.to}];
          return isAborted || std::none_of(queue.begin(), queue.end(), [&](const Message &other) {
                   return other.call == message.call;
                 });
        });
    return !isAborted;
  }

  void abort() {
    std::lock_guard<std::mutex> lock(mutex);
    isAborted = true;
    changed.notify_all();
  }

private:
  bool arrive() {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t mine = round;
    if (++arrived == slots.size()) {
      arrived = 0;
      ++round;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return isAborted || round != mine; });
    return !isAborted;
  }

  std::vector<std::byte> compute(int index, const CommCall &call) const {
    for (const Slot &slot : slots)
      if (slot.call.kind != call.kind || slot.call.count != call.count ||
          slot.call.dtype != call.dtype || slot.call.reduction != call.reduction ||
          slot.call.peer != call.peer)
        throw std::runtime_error("the members of a group make different calls");
    size_t members = slots.size(), bytes = static_cast<size_t>(call.count * sizeOf(call.dtype));
    std::vector<std::byte> result;
    switch (call.kind) {
    case CommCall::AllGather:
      for (const Slot &slot : slots)
        result.insert(result.end(), slot.from, slot.from + bytes);
      return result;
    case CommCall::Broadcast:
      return {slots[call.peer].from, slots[call.peer].from + bytes};
    default:
      break;
    }
    // Adds in ring order. The first member depends on the call, and is rarely member 0.
    size_t offset = call.kind == CommCall::ReduceScatter ? index * bytes : 0;
    size_t first = call.kind == CommCall::ReduceScatter ? index + 1 : members / 2;
    auto inputOf = [&](size_t i) { return slots[(first + i) % members].from + offset; };
    result.assign(inputOf(0), inputOf(0) + bytes);
    for (size_t i = 1; i < members; ++i) {
      const void *both[] = {inputOf(i), result.data()};
      reduce(call.dtype, call.reduction, result.data(), both, 2, call.count);
    }
    return result;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Slot> slots;
  size_t arrived = 0;
  uint64_t round = 0;
  std::map<std::pair<int, int>, std::deque<Message>> waiting;
  bool isAborted = false;
};

class LateBackend final : public CollectiveBackend {
public:
  explicit LateBackend(DoOnDevice onDevice) : onDevice(std::move(onDevice)) {}

  std::string name() const override { return "late links"; }
  Id makeId() override {
    static std::atomic<uint64_t> last{0};
    Id id{};
    uint64_t number = ++last;
    std::memcpy(id.data(), &number, sizeof(number));
    return id;
  }
  int connect(const Id &id, int members, int index) override {
    static std::map<Id, std::weak_ptr<Rendezvous>> all;
    std::lock_guard<std::mutex> lock(globalMutex);
    std::shared_ptr<Rendezvous> rendezvous = all[id].lock();
    if (!rendezvous)
      all[id] = rendezvous = std::make_shared<Rendezvous>(members);
    std::lock_guard<std::mutex> connectionsLock(mutex);
    connections.push_back({rendezvous, index});
    return static_cast<int>(connections.size()) - 1;
  }
  void close() override {}

  void carryOut(int link, const CommPlan &plan, const void *in, void *out, void *stage) override {
    enqueueDelayed(delayed.size());
    enqueue(link, plan, in, out, stage);
  }

  // Asynchronous operations run as late as possible: at their wait, or before the next synchronous
  // operation.
  int32_t start(int link, const CommPlan &plan, const void *in, void *out) override {
    delayed.push_back([=, this] { enqueue(link, plan, in, out, nullptr); });
    return static_cast<int32_t>(++lastToken);
  }
  void wait(int32_t token) override {
    uint64_t before = lastToken - delayed.size();
    if (static_cast<uint64_t>(token) > before)
      enqueueDelayed(static_cast<uint64_t>(token) - before);
  }

  Progress progress() override { return {reached.load(), done.load()}; }
  std::string problem(int) override {
    std::lock_guard<std::mutex> lock(globalMutex);
    return brokenBy;
  }
  void abort() override {
    std::lock_guard<std::mutex> lock(mutex);
    for (Member &member : connections)
      member.rendezvous->abort();
  }

private:
  void enqueueDelayed(size_t count) {
    for (; count > 0; --count) {
      delayed.front()();
      delayed.pop_front();
    }
  }

  void enqueue(int link, const CommPlan &plan, const void *in, void *out, void *stage) {
    onDevice({in, out, stage}, [=, this, member = link == none ? Member{} : connections[link]] {
      work(member, plan,
           {static_cast<std::byte *>(const_cast<void *>(in)), static_cast<std::byte *>(out),
            static_cast<std::byte *>(stage)});
    });
  }

  struct Member {
    std::shared_ptr<Rendezvous> rendezvous;
    int index = 0;
  };
  using Memories = std::array<std::byte *, 3>;

  void work(const Member &member, const CommPlan &plan, const Memories &memories) {
    auto at = [&](CommAddress address) {
      return memories[static_cast<size_t>(address.memory)] + address.offset;
    };
    auto copy = [&](const std::vector<CommCopy> &copies) {
      for (const CommCopy &copy : copies)
        for (int64_t row = 0; row < copy.rows; ++row)
          std::copy_n(at(copy.from) + row * copy.fromStride, copy.width,
                      at(copy.to) + row * copy.toStride);
    };
    for (const CommFill &fill : plan.fills)
      std::fill_n(at(fill.at), fill.bytes, std::byte(0));
    copy(plan.before);
    ++reached;
    std::vector<Rendezvous::Message> messages;
    bool wasAborted = false;
    for (const CommCall &call : plan.calls)
      if (call.kind == CommCall::Send)
        messages.push_back({member.index, call.peer, &call, at(call.from)});
      else if (call.kind == CommCall::Receive)
        messages.push_back({call.peer, member.index, &call, at(call.to)});
      else
        wasAborted |= !member.rendezvous->exchange(member.index, call, at(call.from), at(call.to));
    if (wasAborted || (!messages.empty() && !member.rendezvous->deliver(messages)))
      return;
    ++done;
    copy(plan.after);
  }

  DoOnDevice onDevice;
  std::deque<std::function<void()>> delayed; ///< asynchronous operations that are not enqueued yet
  uint64_t lastToken = 0;
  std::mutex mutex;
  std::vector<Member> connections;
  std::atomic<uint64_t> reached{0}, done{0};
};

} // namespace

std::unique_ptr<CollectiveBackend> makeLateBackend(DoOnDevice onDevice) {
  return std::make_unique<LateBackend>(std::move(onDevice));
}

void breakLateBackend(const std::string &problem) {
  std::lock_guard<std::mutex> lock(globalMutex);
  brokenBy = problem;
}

} // namespace tpc::rt::conformance
