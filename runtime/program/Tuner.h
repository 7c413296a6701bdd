//===- Tuner.h - Tuning by measurement ------------------------------------===//
//
// Devices may select algorithms by measurement (core/Device.h), such as those of matmuls on GPUs.
// Before a step of new sizes, a dry run lists its pending tunings (EstimateMemory.h). For each
// tuning, one of the ranks that need it reads the result from the cache, or from the tables that
// are installed with tpc, or measures it. All of these ranks apply the result before any of them
// starts the step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_TUNER_H
#define TPC_RT_PROGRAM_TUNER_H

#include "core/World.h"
#include "program/TuningCache.h"
#include <functional>
#include <set>

namespace tpc::rt {

class Tuner {
public:
  /// Maximum number of tunings per run. Further work uses the default algorithms.
  static constexpr size_t maxTunings = 4096;

  /// `measures`: whether to measure; equal on all ranks.
  explicit Tuner(bool measures) : measures(measures), cache(TuningCache::folderOfUser()) {}

  /// Collective. Applies a result for each pending tuning. `pendingTunings`: tunings of each local
  /// rank for the next step. `run`: runs a function on each rank's thread, with memory for its
  /// frames.
  void tunePending(World &world, const std::vector<std::vector<std::string>> &pendingTunings,
                   const std::function<void(const std::function<void(tpc_context &)> &)> &run);

private:
  const bool measures;
  TuningCache cache;
  std::set<std::string> tuned;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TUNER_H
