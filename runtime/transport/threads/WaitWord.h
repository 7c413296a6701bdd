//===- WaitWord.h - Counter that threads wait on --------------------------===//
//
// Two flags in the word end all waits: an error on some rank (stop), or a rank that has ended and
// will never advance the counter (left). Because the flags are part of the word, a wait that starts
// while a flag is set does not sleep.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_THREADS_WAITWORD_H
#define TPC_RT_TRANSPORT_THREADS_WAITWORD_H

#include "core/Futex.h"
#include <cstdint>

namespace tpc::rt {

enum class Waited { Advanced, Stopped, Left, Late };

class WaitWord {
public:
  static constexpr uint32_t stopFlag = uint32_t(1) << 31;
  static constexpr uint32_t leftFlag = uint32_t(1) << 30;
  static constexpr uint32_t countMask = leftFlag - 1;

  uint32_t count() const { return word.value.load(std::memory_order_acquire) & countMask; }

  /// Adds one and wakes all.
  void advance() { tryAdvance(0); }
  /// The same as `advance`, unless the stop flag is set. A waiter sees either the advance or the
  /// flag; if this returned true before the flag was set, it sees the advance.
  bool advanceUnlessStopped() { return tryAdvance(stopFlag); }
  void setFlag(uint32_t flag);
  void clearFlag(uint32_t flag) { word.value.fetch_and(~flag); }

  /// Waits until the count differs from `seen`, or for `timeout` seconds (0: no timeout) during
  /// which `counts` returned true. An advance has priority over a flag.
  template <class Counts> Waited wait(uint32_t seen, bool spin, double timeout, Counts counts) {
    return waitFor(seen, spin, stopFlag | leftFlag, timeout, counts);
  }
  /// The same as `wait`, for an advance that will occur whatever happens on other ranks.
  void waitRegardless(uint32_t seen, bool spin) {
    waitFor(seen, spin, 0, 0, [] { return true; });
  }

private:
  bool tryAdvance(uint32_t unless);

  template <class Counts>
  Waited waitFor(uint32_t seen, bool spin, uint32_t flags, double timeout, Counts counts) {
    std::optional<uint32_t> now = word.wait(
        spin, timeout, [&](uint32_t now) { return (now & countMask) != seen || (now & flags); },
        counts);
    if (!now)
      return Waited::Late;
    if ((*now & countMask) != seen)
      return Waited::Advanced;
    return *now & flags & stopFlag ? Waited::Stopped : Waited::Left;
  }

  Futex word;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_THREADS_WAITWORD_H
