//===- Hub.h - what the in-process ranks of a world share -----------------===//

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

/// A barrier of the members of a group, and what they publish there.
struct Barrier {
  /// What a member publishes for the others in one collective. There are two, used in turn: a
  /// member may begin the next collective while others still read in this one. Nobody gets further
  /// ahead, because every collective passes a barrier.
  struct Published {
    const void *in = nullptr;
    void *out = nullptr;
    int64_t bytes = 0;
  };
  struct alignas(64) Slot {
    Published published[2];
    std::byte *stage[2] = {nullptr, nullptr}; ///< room for small tensors
  };

  explicit Barrier(const Group &group);

  std::vector<int> ranks;
  std::vector<Slot> slots;
  int64_t stageBytes; ///< of each stage
  std::unique_ptr<std::byte[]> stages;
  alignas(64) std::atomic<int> arrived{0};
  WaitWord rounds; ///< completed barriers
};

/// Messages from one rank to another. The sender copies into the buffer of a receiver that already
/// waits, otherwise into one of the slots.
struct Channel {
  explicit Channel(size_t numSlots) : slots(numSlots) {}
  /// In `Slot::bytes`: the message is already in the receiver's buffer.
  static constexpr int64_t delivered = -1;
  struct Slot {
    std::vector<std::byte> data; ///< only grows
    int64_t bytes = 0;           ///< of the message
  };
  std::vector<Slot> slots;
  WaitWord sent, received;
  std::atomic<void *> posted{nullptr}; ///< the waiting receiver's buffer
  std::atomic<int64_t> postedBytes{0};
};

class Hub final : public LocalRanks, public std::enable_shared_from_this<Hub> {
public:
  explicit Hub(World &world);

  World &world;

  /// Made at first use, kept for ever.
  Barrier &barrier(const Group &group);
  /// `posts`: of those that wait for nobody, which has a slot for each of them. Otherwise there are
  /// two, so that a stage may be two messages ahead.
  Channel &channel(bool posts, int from, int to);

  std::unique_ptr<Transport> makeTransport(int rank) override;
  void enter() override;
  void leave(int rank) override;
  bool isWaiting(int rank) override;
  /// Wakes everybody who waits.
  void stop();
  /// "rank 3, 5": those among `ranks` that have ended.
  std::string describeLeft(std::span<const int> ranks);

  /// What a rank waits for, for the message of a run that stands still: a group's barrier, or one
  /// peer.
  struct Wait {
    std::atomic<const WaitWord *> word{nullptr}; ///< null: for nothing
    std::atomic<const Barrier *> barrier{nullptr};
    std::atomic<int> peer{-1};
    std::atomic<uint64_t> ended{0}; ///< waits so far
  };
  Wait &waitOf(int rank) { return waits[rank]; }
  /// A number, the same as long as all ranks that have not ended wait, and none has gone on;
  /// nothing while somebody computes.
  std::optional<uint64_t> standstill();
  /// Those that `rank` waits for and that are not where it is; false if it does not wait.
  bool findMissing(int rank, std::vector<int> &missing);

private:
  std::mutex mutex;
  std::map<std::pair<uint32_t, int>, std::unique_ptr<Barrier>> barriers;
  /// By whether they are of posts, and by the ranks from and to.
  std::map<std::tuple<bool, int, int>, std::unique_ptr<Channel>> channels;
  std::set<int> left;
  std::vector<Wait> waits; ///< by rank
  bool isStopped = false;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_THREADS_HUB_H
