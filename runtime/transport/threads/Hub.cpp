//===- Hub.cpp - Shared state of a world's in-process ranks ---------------===//

#include "transport/threads/Hub.h"
#include <algorithm>

namespace tpc::rt {

Barrier::Barrier(const Group &group) : ranks(group.ranks), slots(group.ranks.size()) {
  // A member reads the staging buffers of all other members, so more members have smaller buffers.
  constexpr int64_t total = 64 << 10;
  int64_t members = group.size();
  stageBytes = std::max<int64_t>(total / members / 64 * 64, 64);
  stages.reset(new std::byte[stageBytes * members * 2 + 64]);
  auto base = (reinterpret_cast<uintptr_t>(stages.get()) + 63) & ~uintptr_t(63);
  auto *next = reinterpret_cast<std::byte *>(base);
  for (Slot &slot : slots)
    for (std::byte *&stage : slot.stage) {
      stage = next;
      next += stageBytes;
    }
  for (int i = 0; i < maxInFlight; ++i)
    operations.emplace_back(group.ranks.size());
}

Hub::Hub(World &world) : world(world), waits(world.size()) {}

std::optional<uint64_t> Hub::idleState() {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t ended = 0;
  for (int rank = 0; rank < static_cast<int>(waits.size()); ++rank) {
    ended += waits[rank].ended.load(std::memory_order_relaxed);
    if (!waits[rank].word.load() && !left.count(rank))
      return std::nullopt;
  }
  return ended;
}

bool Hub::findAwaited(int rank, std::vector<int> &awaited) {
  const WaitWord *word = waits[rank].word.load();
  if (!word)
    return false;
  if (const Barrier *barrier = waits[rank].barrier.load()) {
    const StartedOperation *operation = waits[rank].operation.load();
    uint64_t number = waits[rank].number.load();
    for (size_t member = 0; member < barrier->ranks.size(); ++member)
      if (int other = barrier->ranks[member];
          other != rank && (operation ? operation->startedBy[member].load() <= number
                                      : waits[other].word.load() != word))
        awaited.push_back(other);
  } else {
    awaited.push_back(waits[rank].peer.load());
  }
  return true;
}

Barrier &Hub::barrier(const Group &group) {
  std::lock_guard<std::mutex> lock(mutex);
  auto &entry = barriers[{group.axes, group.ranks.front()}];
  if (!entry) {
    entry = std::make_unique<Barrier>(group);
    auto setFlag = [&](uint32_t flag) {
      entry->forEachWord([&](WaitWord &word) { word.setFlag(flag); });
    };
    if (isStopped) {
      for (StartedOperation &operation : entry->operations)
        operation.close();
      setFlag(WaitWord::stopFlag);
    }
    for (int rank : group.ranks)
      if (left.count(rank))
        setFlag(WaitWord::leftFlag);
  }
  return *entry;
}

Channel &Hub::channel(bool posts, int from, int to) {
  std::lock_guard<std::mutex> lock(mutex);
  auto &entry = channels[{posts, from, to}];
  if (!entry) {
    entry = std::make_unique<Channel>(posts ? waits.size() : 2);
    if (isStopped) {
      entry->sent.setFlag(WaitWord::stopFlag);
      entry->received.setFlag(WaitWord::stopFlag);
    }
    if (left.count(from))
      entry->sent.setFlag(WaitWord::leftFlag);
    if (left.count(to))
      entry->received.setFlag(WaitWord::leftFlag);
  }
  return *entry;
}

void Hub::enter() {
  std::lock_guard<std::mutex> lock(mutex);
  left.clear();
  for (auto &[key, barrier] : barriers)
    barrier->forEachWord([](WaitWord &word) { word.clearFlag(WaitWord::leftFlag); });
  for (auto &[key, channel] : channels) {
    channel->sent.clearFlag(WaitWord::leftFlag);
    channel->received.clearFlag(WaitWord::leftFlag);
  }
}

void Hub::leave(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  left.insert(rank);
  for (auto &[key, barrier] : barriers)
    if (std::find(barrier->ranks.begin(), barrier->ranks.end(), rank) != barrier->ranks.end())
      barrier->forEachWord([](WaitWord &word) { word.setFlag(WaitWord::leftFlag); });
  for (auto &[key, channel] : channels) {
    auto [posts, from, to] = key;
    if (from == rank)
      channel->sent.setFlag(WaitWord::leftFlag);
    if (to == rank)
      channel->received.setFlag(WaitWord::leftFlag);
  }
}

bool Hub::isWaiting(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  return waits[rank].word.load() || left.count(rank);
}

void Hub::stop() {
  std::lock_guard<std::mutex> lock(mutex);
  isStopped = true;
  // A rank that wakes frees its buffers.
  for (auto &[key, barrier] : barriers)
    for (StartedOperation &operation : barrier->operations)
      operation.close();
  for (auto &[key, barrier] : barriers)
    barrier->forEachWord([](WaitWord &word) { word.setFlag(WaitWord::stopFlag); });
  for (auto &[key, channel] : channels) {
    channel->sent.setFlag(WaitWord::stopFlag);
    channel->received.setFlag(WaitWord::stopFlag);
  }
}

std::string Hub::describeLeft(std::span<const int> ranks) {
  std::lock_guard<std::mutex> lock(mutex);
  std::string text;
  for (int rank : ranks)
    if (left.count(rank))
      text += (text.empty() ? "rank " : ", ") + std::to_string(rank);
  return text;
}

} // namespace tpc::rt
