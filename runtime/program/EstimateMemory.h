//===- EstimateMemory.h - what ranks will hold of their devices' memory ------===//
//
// Where a kind of device can count (core/Device.h), the start of a rank and a step are gone through
// on a device that does nothing, before the first is made: the code that will run says what it will
// ask for.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_ESTIMATEMEMORY_H
#define TPC_RT_PROGRAM_ESTIMATEMEMORY_H

#include "core/World.h"
#include "program/Inputs.h"
#include <span>

namespace tpc::rt {

/// Bytes that one rank holds.
struct MemoryNeed {
  int64_t libraries = 0; ///< from the start: workspaces, communication
  int64_t weights = 0;   ///< with constants
  int64_t caches = 0;    ///< that stay from step to step
  int64_t step = 0;      ///< and what else comes to them in a step
  int64_t most = 0;      ///< of all at any time
  int64_t frames = 0;    ///< of a step: its stack
  int64_t stack = 0;     ///< that the stack is in, in one piece
  /// What the step leaves open that is chosen by measuring (Tuner.h), in the memory of frames.
  std::vector<std::string> pendingTunings;
};

/// For one rank and steps with these inputs, one after the other. Throws UserError.
MemoryNeed estimateMemory(const tpc_program &program, const Manifest &manifest,
                          std::span<const Inputs> steps, int rank);

/// "batch=1, sequence=128"
std::string textOf(const SymbolValues &sizes);

/// What each rank will hold of weights, of caches, and in the steps of a task that takes most: a
/// line for ranks that hold the same.
std::string memoryPlan(const tpc_program &program, const Manifest &manifest,
                       std::span<const Inputs> steps);

/// The ranks [first, end) are of this process and compute on its processors. Throws a UserError
/// where caches and steps of a task, which is for `room`, are more than the machine can ever have.
void checkHostMemory(const tpc_program &program, const Manifest &manifest,
                     std::span<const Inputs> steps, int first, int end, const std::string &room);

/// Collective over the session, which may be null. All ranks must find room on their devices:
/// throws a UserError if some do not, with what they need and what there is. What is to be said.
std::string checkMemory(const tpc_program &program, const Manifest &manifest,
                        std::span<const Inputs> steps, Session *session);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_ESTIMATEMEMORY_H
