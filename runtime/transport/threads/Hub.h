//===- Hub.h - Shared state of a world's in-process ranks -----------------===//

#ifndef TPC_RT_TRANSPORT_THREADS_HUB_H
#define TPC_RT_TRANSPORT_THREADS_HUB_H

#include "core/Grid.h"
#include "core/LinkDelay.h"
#include "core/Transport.h"
#include "core/World.h"
#include "transport/threads/WaitWord.h"
#include <atomic>
#include <deque>
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

/// Entry for an asynchronous collective of a group. Operation n uses entry n modulo the number of
/// entries.
struct StartedOperation {
  struct Member {
    const void *in = nullptr;
    void *out = nullptr;
  };
  explicit StartedOperation(size_t members) : members(members), startedBy(members) {}

  /// A claim is the operation's number and its next block, or one of two values. unused: no
  /// operation yet; closed: no further operation, because of an error.
  static constexpr int blockBits = 24;
  static constexpr uint64_t blockMask = (uint64_t(1) << blockBits) - 1;
  static constexpr uint64_t unused = ~blockMask, closed = ~uint64_t(0);
  /// Begins operation `number`, which all members have started. Returns false if it is closed.
  bool open(uint64_t number);
  /// Claims the next block of operation `number`; returns nothing if none is left.
  std::optional<int64_t> claimBlock(uint64_t number, int64_t blocks);
  /// Ends all claims, and returns when no member uses the buffers of another one.
  void close();

  std::vector<Member> members;
  std::vector<std::atomic<uint64_t>> startedBy; ///< operations that a member has started, so far
  std::atomic<int> arrived{0};
  WaitWord started; ///< counts operations that all members have started
  std::atomic<uint64_t> claim{unused};
  std::atomic<int64_t> done{0}; ///< completed blocks
  WaitWord finished;            ///< counts completed operations
  int64_t readyAt = 0;          ///< see LinkDelay.h
};

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

  static constexpr int maxInFlight = 16;
  std::deque<StartedOperation> operations; ///< maxInFlight entries
  int64_t linkFree = 0;                    ///< end of the last operation, see LinkDelay.h
  /// Calls `fn` with each word that members wait on.
  template <typename Fn> void forEachWord(const Fn &fn) {
    fn(rounds);
    for (StartedOperation &operation : operations) {
      fn(operation.started);
      fn(operation.finished);
    }
  }
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
  const LinkDelay delay;

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
    /// The wait for a started collective, and its number.
    std::atomic<const StartedOperation *> operation{nullptr};
    std::atomic<uint64_t> number{0};
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
