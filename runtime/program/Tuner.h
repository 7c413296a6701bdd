//===- Tuner.h - what ranks choose by measuring -------------------------===//
//
// Devices may choose by measuring how they do some work (core/Device.h): the algorithms of products
// on GPUs. Before a step of new sizes, a device that only counts has gone through it, and so said
// which pendingTunings are open (EstimateMemory.h). Each is answered by one of the ranks that have
// it, from the cache or by measuring, and all of these take the answer, before any of them begins
// the step.
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
  /// Questions that are answered in a run. Of more, work is done as if nobody measured.
  static constexpr size_t maxTunings = 4096;

  /// `measures`: the same on all ranks.
  explicit Tuner(bool measures) : measures(measures), cache(TuningCache::folderOfUser()) {}

  /// Collective. `pendingTunings`: of each rank of this process, about the step that comes; `run`:
  /// runs on each rank's thread, where there is the memory for its frames.
  void settle(World &world, const std::vector<std::vector<std::string>> &pendingTunings,
              const std::function<void(const std::function<void(tpc_context &)> &)> &run);

private:
  const bool measures;
  TuningCache cache;
  std::set<std::string> settled;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TUNER_H
