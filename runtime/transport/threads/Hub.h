//===- Hub.h - Shared state of a world's in-process ranks -----------------===//

#ifndef TPC_RT_TRANSPORT_THREADS_HUB_H
#define TPC_RT_TRANSPORT_THREADS_HUB_H

#include "core/Grid.h"
#include "core/Transport.h"
#include "core/World.h"
#include "transport/threads/WaitWord.h"
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tpc::rt {

/// Barrier of a group's members, with their published data.
struct Barrier {
  /// Data that a member publishes for one collective. Two buffers alternate, because a member may
  /// begin the next collective while others still read this one. No member can be further ahead,
  /// because every collective has a barrier.
  struct Published {
    const void *in = nullptr;
    void *out = nullptr;
    int64_t bytes = 0;
  };
  struct alignas(64) Slot {
    Published published[2];
    std::byte *stage[2] = {nullptr, nullptr}; ///< staging buffer for small tensors
  };

  explicit Barrier(const Group &group);

  std::vector<int> ranks;
  std::vector<Slot> slots;
  int64_t stageBytes; ///< bytes of each staging buffer
  std::unique_ptr<std::byte[]> stages;
  alignas(64) std::atomic<int> arrived{0};
  WaitWord rounds; ///< counts completed barriers
};

/// Messages from one rank to another. The sender copies into the buffer of a waiting receiver,
/// otherwise into one of the slots.
struct Channel {
  explicit Channel(size_t numSlots) : slots(numSlots) {}
  /// Value of `Slot::bytes`: the message is already in the receiver's buffer.
  static constexpr int64_t delivered = -1;
  struct Slot {
    std::vector<std::byte> data; ///< only grows
    int64_t bytes = 0;           ///< size of the message
  };
  std::vector<Slot> slots;
  WaitWord sent, received;
  std::atomic<void *> receiverBuffer{nullptr}; ///< the waiting receiver's buffer
  std::atomic<int64_t> receiverBytes{0};
};

class Hub final : public LocalRanks, public std::enable_shared_from_this<Hub> {
public:
  explicit Hub(World &world);

  World &world;

  /// Channels are created at first use and never destroyed.
  Barrier &barrier(const Group &group);
  /// `posts`: whether the channel is for posted messages, of which it has one slot per rank. Other
  /// channels have two slots, so that a pipeline stage may be two messages ahead.
  Channel &channel(bool posts, int from, int to);

  std::unique_ptr<Transport> makeTransport(int rank) override;
  void enter() override;
  void leave(int rank) override;
  bool isWaiting(int rank) override;
  /// Wakes all waiting ranks.
  void stop();
  /// "rank 3, 5": the ranks among `ranks` that have ended.
  std::string describeLeft(std::span<const int> ranks);

  /// Current wait of a rank, for messages about hangs: for a group's barrier or for one peer.
  struct Wait {
    std::atomic<const WaitWord *> word{nullptr}; ///< null: the rank does not wait
    std::atomic<const Barrier *> barrier{nullptr};
    std::atomic<int> peer{-1};
    std::atomic<uint64_t> ended{0}; ///< number of waits so far
  };
  Wait &waitOf(int rank) { return waits[rank]; }
  /// Returns a number that stays the same while all ranks that have not ended wait without
  /// progress; nothing while any rank computes.
  std::optional<uint64_t> idleState();
  /// Sets the ranks that `rank` waits for and that have not reached the same point. Returns false
  /// if it does not wait.
  bool findAwaited(int rank, std::vector<int> &awaited);

private:
  std::mutex mutex;
  std::map<std::pair<uint32_t, int>, std::unique_ptr<Barrier>> barriers;
  /// By kind (posts or other messages), source rank, and destination rank.
  std::map<std::tuple<bool, int, int>, std::unique_ptr<Channel>> channels;
  std::set<int> left;
  std::vector<Wait> waits; ///< by rank
  bool isStopped = false;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_THREADS_HUB_H
