//===- Termination.h - a launcher asks this process to end ----------------===//
//
// A launcher ends all processes by SIGTERM as soon as one has died. The thread that watches them
// (Watch.h) first says which that was.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TERMINATION_H
#define TPC_RT_CORE_TERMINATION_H

namespace tpc::rt {

class Termination {
public:
  /// From now on SIGTERM is noted, until as many calls of `forget`. A handler that the process has
  /// itself stays.
  static void expect();
  static void forget();
  static bool isAsked();
  /// Becomes readable then; to be polled, not read.
  static int event();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_TERMINATION_H
