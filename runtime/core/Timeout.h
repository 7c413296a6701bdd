//===- Timeout.h - how long a rank waits for another ---------------------===//
//
// A rank that waits for others longer than the world's timeout ends the run. Only time in which
// this process could have looked counts: one that was stopped itself, and goes on, has not waited.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TIMEOUT_H
#define TPC_RT_CORE_TIMEOUT_H

#include <chrono>

namespace tpc::rt {

/// Seconds. What may be nothing but the end of another rank is said so late: whoever watches that
/// rank says which it was, under mpirun as late as this.
constexpr double graceForOthers = 3;

class Timeout {
public:
  /// `seconds`: 0 for ever. `whole`: a longer wait that this one is a part of: each look counts for
  /// both, and this one is over as soon as that one is.
  explicit Timeout(double seconds, Timeout *whole = nullptr) : limit(seconds), whole(whole) {}

  /// The longest that anybody may sleep before looking again.
  static constexpr double longestLook = 0.5;

  /// To be asked at each look. Unless the time since the last look counts, it begins anew.
  bool isOver(bool counts = true) {
    bool wholeIsOver = whole && whole->isOver(counts);
    if (limit <= 0)
      return wholeIsOver;
    auto now = Clock::now();
    double passed = std::chrono::duration<double>(now - last).count();
    waited = counts ? waited + (passed < 2 * longestLook ? passed : 2 * longestLook) : 0;
    last = now;
    return wholeIsOver || waited >= limit;
  }
  double seconds() const { return limit; }
  bool isEndless() const { return limit <= 0; }

private:
  using Clock = std::chrono::steady_clock;
  double limit, waited = 0;
  Timeout *whole;
  Clock::time_point last = Clock::now();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_TIMEOUT_H
