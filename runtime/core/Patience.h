//===- Patience.h - how long a rank waits for another ---------------------===//
//
// A rank that waits for others longer than the world's timeout ends the run. Only time in which
// this process could have looked counts: one that was stopped itself, and goes on, has not waited.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_PATIENCE_H
#define TPC_RT_CORE_PATIENCE_H

#include <chrono>

namespace tpc::rt {

/// Seconds. What may be nothing but the end of another rank is said so late: whoever watches that
/// rank says which it was, under mpirun as late as this.
constexpr double graceForOthers = 3;

class Patience {
public:
  /// `seconds`: 0 for ever.
  explicit Patience(double seconds) : limit(seconds) {}

  /// The longest that anybody may sleep before looking again.
  static constexpr double longestLook = 0.5;

  /// To be asked at each look. Unless the time since the last look counts, it begins anew.
  bool isOver(bool counts = true) {
    if (limit <= 0)
      return false;
    auto now = Clock::now();
    if (!counts)
      waited = 0;
    else if (begun) {
      double passed = std::chrono::duration<double>(now - last).count();
      waited += passed < 2 * longestLook ? passed : 2 * longestLook;
    }
    begun = true;
    last = now;
    return waited >= limit;
  }
  double seconds() const { return limit; }
  bool isEndless() const { return limit <= 0; }

private:
  using Clock = std::chrono::steady_clock;
  double limit, waited = 0;
  bool begun = false;
  Clock::time_point last;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_PATIENCE_H
