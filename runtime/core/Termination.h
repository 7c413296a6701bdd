//===- Termination.h - SIGTERM from a launcher ----------------------------===//
//
// A launcher sends SIGTERM to all processes as soon as one has died. The watchdog's thread
// (Watchdog.h) first reports which one died.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TERMINATION_H
#define TPC_RT_CORE_TERMINATION_H

namespace tpc::rt {

class Termination {
public:
  /// Notes SIGTERM from now on, until as many calls of `forget`. A handler that the process has
  /// installed itself stays.
  static void expect();
  static void forget();
  static bool isRequested();
  /// File descriptor that becomes readable on SIGTERM; to be polled, not read.
  static int event();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_TERMINATION_H
