//===- HangDetector.h - Wait-for analysis of a run without progress -------===//
//
// Builds the message about a hang from the known state of the ranks, and selects the rank that the
// message names first. Used by the watchdog of processes (Watchdog.h) and the monitor of threads
// (DeviceMonitor.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_HANGDETECTOR_H
#define TPC_RT_CORE_HANGDETECTOR_H

#include "core/Heartbeat.h"
#include <functional>
#include <string>
#include <vector>

namespace tpc::rt {

struct HangDetector {
  int ranks;
  std::function<const Heartbeat &(int)> heartbeatOf; ///< empty heartbeat: state unknown
  std::function<std::string(int)> describe;          ///< "rank 1 (tp 1)"

  /// Returns the ranks that `rank` waits for, without those that are already in the same collective
  /// or a later one.
  std::vector<int> awaited(int rank) const;
  /// Returns the rank that the message names first: the first rank that waits for a rank that
  /// itself waits for no other. If there is none, returns the first rank that waits for its own
  /// device, or else the first rank that has not ended.
  int rankToReport() const;
  /// "rank 2 (tp 0) in receive over 'pp' for rank 0 (tp 0)"
  std::string describeWait(int rank) const;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_HANGDETECTOR_H
