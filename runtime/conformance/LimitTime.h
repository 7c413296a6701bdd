//===- LimitTime.h - Time limits of processes that tests start ------------===//

#ifndef TPC_RT_CONFORMANCE_LIMITTIME_H
#define TPC_RT_CONFORMANCE_LIMITTIME_H

#include <sys/resource.h>
#include <unistd.h>

namespace tpc::rt {

/// Limits this process, and the program that it executes, to one minute of processor time. CPU time
/// limits do not depend on the load of the machine. A process that waits forever is ended after ten
/// minutes.
inline void limitTime() {
  rlimit limit{60, 60};
  setrlimit(RLIMIT_CPU, &limit);
  alarm(600);
}

} // namespace tpc::rt

#endif // TPC_RT_CONFORMANCE_LIMITTIME_H
