//===- Work.cpp - Communicator operations in streams ----------------------===//
//
// In a collective, each rank copies its input to shared memory and marks it as posted. When all
// inputs are posted, each rank computes its own result in the same way, and marks the inputs as
// consumed. A send is complete when the receiver has read the data.
//
//===----------------------------------------------------------------------===//

#include "Comm.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace sim::nccl {

uint64_t newGroup() {
  static std::atomic<uint64_t> groups{0};
  return ++groups;
}

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t hash = (a ^ b * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

/// Returns the order in which ranks are added. It is reproducible, but not ascending.
std::vector<int> orderOf(const Descriptor &descriptor, int ranks, uint64_t chunk) {
  std::vector<int> order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  uint64_t random = mix(mix(driver().seed(), descriptor.count), uint64_t(descriptor.kind));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[(random = mix(random, i)) % i]);
  // As in a ring, each piece begins at another rank.
  std::rotate(order.begin(), order.begin() + int64_t(chunk % uint64_t(ranks)), order.end());
  return order;
}

class CommWork final : public Work {
public:
  CommWork(CommRef comm, std::vector<Call> calls, uint64_t group)
      : Work("NCCL " + titleOf(*comm, calls)), comm(std::move(comm)), calls(std::move(calls)),
        group(group) {
    ++this->comm->outstanding;
  }
  ~CommWork() override { --comm->outstanding; }

  void begin() override {
    next = 0;
    posted = holds = published = reported = false;
    parts.assign(calls.size(), Open);
    since = std::chrono::steady_clock::now();
    if (driver().injected("async", ++comm->owner->begun, comm->device)) {
      driver().trace("injected async into " + name);
      comm->asyncError = RemoteError;
    }
  }

  Progress step(Execution &execution) override {
    if (comm->aborted)
      return leave();
    // A failed communicator neither executes nor completes operations.
    if (comm->asyncError)
      return waits("nothing, because the communicator has failed");
    for (const Call &call : calls)
      for (const auto &one : call.registrations)
        if (one->gone)
          throw Fault{ERROR_ILLEGAL_ADDRESS,
                      "NCCL: memory that was registered at the call is not registered any more"};
    if (!enter())
      return waits("another operation of this rank to complete");
    try {
      if (stepAll(execution))
        return leave();
    } catch (const Fault &) {
      comm->asyncError = InternalError;
      leave();
      throw;
    }
    return waits(reason);
  }

private:
  enum Part : uint8_t { Open, Posted, Over };

  static std::string titleOf(const Comm &comm, const std::vector<Call> &calls) {
    std::string result = calls[0].descriptor.str();
    if (calls[0].descriptor.kind >= Kind::Send)
      result += (calls[0].descriptor.kind == Kind::Send ? " to " : " from ") +
                std::to_string(calls[0].peer);
    if (calls.size() > 1)
      result += " and " + std::to_string(calls.size() - 1) + " more";
    return result + " of rank " + std::to_string(comm.rank) + " of " + comm.name;
  }

  /// Begins the operation, unless an operation of another group of this rank is in flight.
  bool enter() {
    if (holds)
      return true;
    Rank &rank = *comm->owner;
    std::lock_guard lock(rank.mutex);
    if (rank.works && rank.group != group)
      return false;
    rank.group = group;
    ++rank.works;
    return holds = true;
  }
  Progress leave() {
    if (holds) {
      std::lock_guard lock(comm->owner->mutex);
      --comm->owner->works;
      holds = false;
    }
    if (published)
      comm->publishWait("");
    return Progress::Done;
  }

  Progress waits(const std::string &what) {
    // All ranks first publish what they wait for. After that, findings can name it.
    auto time = std::chrono::steady_clock::now() - since;
    if (!published && time > std::chrono::seconds(3)) {
      published = true;
      comm->publishWait(name);
    }
    if (!reported && time > std::chrono::milliseconds(3300)) {
      reported = true;
      driver().finding("NCCL: stuck: " + name + " waits for " + what);
    }
    return Progress::Waits;
  }

  bool stepAll(Execution &execution) {
    // Sends and receives progress together, collectives one after the other.
    bool over = true;
    uint64_t offset = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Call &call = calls[i];
      uint64_t bytes = call.descriptor.count * bytesOf(call.descriptor.type);
      if (call.descriptor.kind == Kind::Send) {
        over &= stepSend(execution, call, parts[i], offset);
        offset += (bytes + 63) / 64 * 64;
      } else if (call.descriptor.kind == Kind::Recv) {
        over &= stepReceive(execution, call, parts[i]);
      }
    }
    while (next < calls.size()) {
      if (calls[next].descriptor.kind < Kind::Send && !stepCollective(execution, calls[next]))
        return false;
      ++next;
      posted = false;
    }
    return over;
  }

  void waitsFor(int peer) { reason = "rank " + std::to_string(peer) + comm->whereIs(peer); }

  bool stepSend(Execution &execution, const Call &call, Part &part, uint64_t offset) {
    Channel &channel = comm->shared.header().channels[comm->rank][call.peer];
    uint64_t bytes = call.descriptor.count * bytesOf(call.descriptor.type);
    if (part == Open) {
      // Each channel has one message at a time. Earlier ones of this group come first.
      if (channel.sent != channel.received)
        return waitsFor(call.peer), false;
      if (offset + bytes > stagingBytes)
        throw Fault{ERROR_NOT_SUPPORTED, "not simulated: sends of more than 1 GiB"};
      if (bytes)
        std::memcpy(comm->shared.staging(comm->rank, true) + offset,
                    execution.read(call.send, bytes, "the send buffer"), bytes);
      channel.type = call.descriptor.type;
      channel.count = call.descriptor.count;
      channel.offset = offset;
      ++channel.sent;
      part = Posted;
    }
    if (part == Posted && channel.received == channel.sent)
      part = Over;
    if (part != Over)
      waitsFor(call.peer);
    return part == Over;
  }

  bool stepReceive(Execution &execution, const Call &call, Part &part) {
    Channel &channel = comm->shared.header().channels[call.peer][comm->rank];
    if (part == Over)
      return true;
    if (channel.sent == channel.received)
      return waitsFor(call.peer), false;
    if (channel.type != call.descriptor.type || channel.count != call.descriptor.count)
      throw Fault{ERROR_LAUNCH_FAILED,
                  "NCCL: rank " + std::to_string(call.peer) + " sends " +
                      Descriptor{Kind::Send, channel.type, Sum, 0, channel.count}.str() +
                      ", and rank " + std::to_string(comm->rank) + " receives " +
                      call.descriptor.str()};
    uint64_t bytes = channel.count * bytesOf(channel.type);
    if (bytes)
      std::memcpy(execution.write(call.receive, bytes, "the receive buffer"),
                  comm->shared.staging(call.peer, true) + channel.offset, bytes);
    ++channel.received;
    part = Over;
    return true;
  }

  bool stepCollective(Execution &execution, const Call &call) {
    Slot &own = comm->own();
    const Descriptor &descriptor = call.descriptor;
    uint64_t unit = descriptor.count * bytesOf(descriptor.type);
    uint64_t input = descriptor.kind == Kind::ReduceScatter ? unit * uint64_t(comm->ranks) : unit;
    if (!posted) {
      // All ranks must have consumed this rank's earlier data.
      for (int i = 0; i < comm->ranks; ++i)
        if (comm->slot(i).consumed < own.posted)
          return waitsFor(i), false;
      if (input > stagingBytes)
        throw Fault{ERROR_NOT_SUPPORTED, "not simulated: collectives of more than 1 GiB"};
      bool gives = descriptor.kind != Kind::Broadcast || descriptor.root == comm->rank;
      if (gives && input)
        std::memcpy(comm->shared.staging(comm->rank, false),
                    execution.read(call.send, input, "the send buffer"), input);
      own.descriptor = descriptor;
      ++own.posted;
      posted = true;
    }
    uint64_t number = own.posted;
    for (int i = 0; i < comm->ranks; ++i)
      if (comm->slot(i).posted < number)
        return waitsFor(i), false;
    for (int i = 0; i < comm->ranks; ++i)
      if (!(comm->slot(i).descriptor == descriptor))
        throw Fault{ERROR_LAUNCH_FAILED,
                    "NCCL: call " + std::to_string(number) + " of " + comm->name + " is " +
                        descriptor.str() + " on rank " + std::to_string(comm->rank) + ", and " +
                        comm->slot(i).descriptor.str() + " on rank " + std::to_string(i)};
    finish(execution, call, unit);
    own.consumed = number;
    return true;
  }

  void finish(Execution &execution, const Call &call, uint64_t unit) {
    const Descriptor &descriptor = call.descriptor;
    auto given = [&](int rank) { return comm->shared.staging(rank, false); };
    switch (descriptor.kind) {
    case Kind::AllGather: {
      uint8_t *to =
          execution.write(call.receive, unit * uint64_t(comm->ranks), "the receive buffer");
      for (int i = 0; i < comm->ranks; ++i)
        std::memcpy(to + uint64_t(i) * unit, given(i), unit);
      return;
    }
    case Kind::Broadcast:
      std::memcpy(execution.write(call.receive, unit, "the receive buffer"), given(descriptor.root),
                  unit);
      return;
    case Kind::Reduce:
      if (descriptor.root != comm->rank)
        return;
      [[fallthrough]];
    case Kind::AllReduce: {
      uint8_t *to = execution.write(call.receive, unit, "the result");
      uint64_t pieces = uint64_t(comm->ranks), bytes = bytesOf(descriptor.type);
      for (uint64_t piece = 0; piece < pieces; ++piece) {
        uint64_t from = descriptor.count * piece / pieces,
                 end = descriptor.count * (piece + 1) / pieces;
        reduce(to + from * bytes, from * bytes, end - from, piece, descriptor);
      }
      return;
    }
    case Kind::ReduceScatter:
      reduce(execution.write(call.receive, unit, "the result"), unit * uint64_t(comm->rank),
             descriptor.count, uint64_t(comm->rank), descriptor);
      return;
    case Kind::Send:
    case Kind::Recv:
    case Kind::NumKinds:
      return;
    }
  }

  void reduce(uint8_t *to, uint64_t offset, uint64_t count, uint64_t piece,
              const Descriptor &descriptor) {
    std::vector<int> order = orderOf(descriptor, comm->ranks, piece);
    auto given = [&](int rank) { return comm->shared.staging(rank, false) + offset; };
    std::memcpy(to, given(order[0]), count * bytesOf(descriptor.type));
    for (size_t i = 1; i < order.size(); ++i)
      combine(to, given(order[i]), count, descriptor.type, descriptor.op);
    if (descriptor.op == Avg)
      divide(to, count, descriptor.type, comm->ranks);
  }

  CommRef comm;
  std::vector<Call> calls;
  uint64_t group;
  // State of one execution.
  size_t next = 0; // index of the next collective
  bool posted = false, holds = false, published = false, reported = false;
  std::vector<Part> parts; // sends and receives
  std::string reason;
  std::chrono::steady_clock::time_point since;
};

} // namespace

std::shared_ptr<Work> makeWork(CommRef comm, std::vector<Call> calls, uint64_t group) {
  return std::make_shared<CommWork>(std::move(comm), std::move(calls), group);
}

} // namespace sim::nccl
