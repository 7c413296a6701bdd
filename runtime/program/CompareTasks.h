//===- CompareTasks.h - Comparison of flags between ranks -----------------===//

#ifndef TPC_RT_PROGRAM_COMPARETASKS_H
#define TPC_RT_PROGRAM_COMPARETASKS_H

#include "core/World.h"
#include "program/CommandLine.h"
#include "program/Inputs.h"

namespace tpc::rt {

/// Returns the run's flags as traits. Ranks that differ in one of them would communicate
/// differently. Excludes flags that concern only one process, such as --verbose or
/// --threads-per-rank, and file names, which may differ between hosts.
std::vector<Trait> traitsOfTask(const Options &options);

/// Returns the sizes of the first inputs, and the number of runs, as traits.
std::vector<Trait> traitsOfInputs(const Manifest &manifest, const Inputs &first, size_t requests);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_COMPARETASKS_H
