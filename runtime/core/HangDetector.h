//===- HangDetector.h - who waits for whom ----------------------------------===//
//
// What is said of a run that does not go on, of what is known of its ranks: in words, and who is to
// be named first. For who watches processes (Watch.h) as for who watches threads (DeviceWatch.h).
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
  std::function<const Heartbeat &(int)> heartbeatOf; ///< an empty one of whom nothing is known
  std::function<std::string(int)> describe;          ///< "rank 1 (tp 1)"

  /// For whom it waits: who is in the same one is not missing, nor who is in a later one.
  std::vector<int> missing(int rank) const;
  /// The first rank that waits for one that waits for nobody, which is late; else the first that
  /// waits for its own device; else the first that has not ended.
  int first() const;
  /// "rank 2 (tp 0) in receive over 'pp' for rank 0 (tp 0)"
  std::string describeWait(int rank) const;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_HANGDETECTOR_H
