//===- Termination.h - SIGTERM from a launcher ----------------------------===//
//
// A launcher sends SIGTERM to all processes as soon as one has died. Before this process ends, the
// watchdog's thread (Watchdog.h) reports which process died.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TERMINATION_H
#define TPC_RT_CORE_TERMINATION_H

namespace tpc::rt {

class Termination {
public:
  /// Records SIGTERM instead of ending the process, until `forget` has been called as often. Does
  /// not replace a handler that the process has installed itself.
  static void expect();
  static void forget();
  static bool isRequested();
  /// File descriptor that becomes readable on SIGTERM; to be polled, not read.
  static int event();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_TERMINATION_H
