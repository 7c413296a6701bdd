//===- Timeout.h - Timeout of a wait for another rank ---------------------===//
//
// A rank that waits for others longer than the world's timeout ends the run. Only time in which
// this process could run counts: while a process is stopped, time does not count.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TIMEOUT_H
#define TPC_RT_CORE_TIMEOUT_H

#include <chrono>

namespace tpc::rt {

/// Grace period in seconds. An error that another rank's end may have caused is reported after this
/// delay, so that the watchdog can name that rank first. Under mpirun, the watchdog needs that
/// long.
constexpr double graceForOthers = 3;

class Timeout {
public:
  /// `seconds`: 0 for no timeout. `whole`: an enclosing wait. Each check advances both, and this
  /// wait ends when the enclosing one does.
  explicit Timeout(double seconds, Timeout *whole = nullptr) : limit(seconds), whole(whole) {}

  /// Maximum sleep between two checks, in seconds.
  static constexpr double longestInterval = 0.5;

  /// Call at each check. The timeout restarts if the time since the last check does not count.
  bool isOver(bool counts = true) {
    bool wholeIsOver = whole && whole->isOver(counts);
    if (limit <= 0)
      return wholeIsOver;
    auto now = Clock::now();
    double passed = std::chrono::duration<double>(now - last).count();
    waited = counts ? waited + (passed < 2 * longestInterval ? passed : 2 * longestInterval) : 0;
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
