//===- EarlyEnd.h - Processes that end before they join the other ranks ---===//
//
// A process may end before joinLauncher: its flags are invalid, or it was started with --help. The
// other ranks would wait for it. Rank 0 therefore listens before it parses flags, and a process
// that ends early informs rank 0, or, as rank 0, the others. This applies to launches that connect
// over TCP. Under MPI, the launcher and LaunchMonitor.h detect such ends.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_EARLYEND_H
#define TPC_RT_CORE_EARLYEND_H

#include "core/Launcher.h"

namespace tpc::rt {

enum class EarlyEnd {
  Failed, ///< the process has an error
  Absent, ///< the process runs nothing: --help, --describe
};

/// Sets the launcher that endEarly uses. Rank 0 of a launch over TCP starts to listen.
void listenEarly(const Launcher &launcher);

/// State of rank 0. Unknown: rank 0 was not reached.
enum class RankZero { Unknown, Waits, Failed };

/// Informs the other ranks that this process ends; takes seconds if they do not connect. Does
/// nothing after joinLauncher or an earlier call.
RankZero endEarly(EarlyEnd why);

} // namespace tpc::rt

#endif // TPC_RT_CORE_EARLYEND_H
