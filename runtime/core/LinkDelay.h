//===- LinkDelay.h - Simulated bandwidth of links, for tests --------------===//
//
// If TPC_LINK_BYTES_PER_SECOND is set, an all-reduce of b bytes takes at least b divided by that
// number. Operations of a group use its link one after the other. Measurements of overlap use it on
// machines whose memory is much faster than a network.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_LINKDELAY_H
#define TPC_RT_CORE_LINKDELAY_H

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace tpc::rt {

class LinkDelay {
public:
  /// Nanoseconds of a monotonic clock.
  static int64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
  }

  bool isSet() const { return bytesPerSecond > 0; }
  /// Returns the time at which an operation that can start at `start` is complete; 0 if no
  /// bandwidth is set.
  int64_t end(int64_t start, int64_t bytes) const {
    return isSet() ? start + int64_t(1e9 * double(bytes) / bytesPerSecond) : 0;
  }
  static void sleepUntil(int64_t end) {
    timespec time{time_t(end / 1000000000), long(end % 1000000000)};
    while (end && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR)
      ;
  }

private:
  static double read() {
    const char *text = std::getenv("TPC_LINK_BYTES_PER_SECOND");
    return text ? std::atof(text) : 0;
  }
  double bytesPerSecond = read();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_LINKDELAY_H
