//===- EstimateMemory.h - Estimate of device memory -----------------------===//
//
// If a device kind supports dry runs (core/Device.h), a rank's start and steps run on a dry-run
// device before the first real device is made. So the estimate uses the same code as the run.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_ESTIMATEMEMORY_H
#define TPC_RT_PROGRAM_ESTIMATEMEMORY_H

#include "core/World.h"
#include "program/Inputs.h"
#include <span>

namespace tpc::rt {

/// Bytes of device memory of one rank.
struct MemoryNeed {
  int64_t libraries = 0; ///< workspaces and communication, allocated at the start
  int64_t weights = 0;   ///< including constants
  int64_t caches = 0;    ///< persistent between steps
  int64_t step = 0;      ///< additional memory in a step
  int64_t peak = 0;      ///< peak of the total
  int64_t frames = 0;    ///< peak of a step's frames
  int64_t stack = 0;     ///< contiguous allocation that contains the frames
  /// Pending tunings of the step (Tuner.h), measured in the frames' memory.
  std::vector<std::string> pendingTunings;
};

/// Returns the memory of one rank for a sequence of steps with these inputs. Throws UserError.
MemoryNeed estimateMemory(const tpc_program &program, const Manifest &manifest,
                          std::span<const Inputs> steps, int rank);

/// "batch=1, sequence=128"
std::string textOf(const SymbolValues &sizes);

/// Describes the memory of each rank: weights, caches, and the task's largest steps. Ranks with
/// equal values share one line.
std::string memoryPlan(const tpc_program &program, const Manifest &manifest,
                       std::span<const Inputs> steps);

/// The ranks [first, end) are in this process and compute on its CPU. Throws UserError if caches
/// and steps of a task, sized for `limits`, exceed the machine's memory.
void checkHostMemory(const tpc_program &program, const Manifest &manifest,
                     std::span<const Inputs> steps, int first, int end, const std::string &limits);

/// Collective over the session, which may be null. Checks that all ranks fit on their devices;
/// throws a UserError with the required and available bytes if some do not. Returns a note to
/// print.
std::string checkMemory(const tpc_program &program, const Manifest &manifest,
                        std::span<const Inputs> steps, Session *session);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_ESTIMATEMEMORY_H
