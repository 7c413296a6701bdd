//===- WaitWord.h - a counter that threads wait on ------------------------===//
//
// Two flags in the word end all waiting: an error somewhere (stop), or a rank that ended and will
// never advance the counter (left). As the flags are part of the word, a wait that begins just when
// a flag is set does not sleep.
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
  /// The same, unless the stop flag is set. A waiter either sees the count advance or the flag, and
  /// never the flag if this returned true first.
  bool advanceUnlessStopped() { return tryAdvance(stopFlag); }
  void setFlag(uint32_t flag);
  void clearFlag(uint32_t flag) { word.value.fetch_and(~flag); }

  /// Until the count is no longer `seen`, or `timeout` seconds (0: for ever) in which `counts`
  /// held. A count that advanced counts more than a flag.
  template <class Counts> Waited wait(uint32_t seen, bool spin, double timeout, Counts counts) {
    return waitFor(seen, spin, stopFlag | leftFlag, timeout, counts);
  }
  /// The same for what is certain to come, whatever happens elsewhere.
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
