//===- CompareTasks.h - Comparison of flags between ranks -----------------===//

#ifndef TPC_RT_PROGRAM_COMPARETASKS_H
#define TPC_RT_PROGRAM_COMPARETASKS_H

#include "core/World.h"
#include "program/CommandLine.h"
#include "program/Inputs.h"

namespace tpc::rt {

/// Traits of the run's flags: ranks that differ in one would communicate differently. Excludes
/// flags of a single process, such as --verbose or --threads, and file names, which may differ
/// between hosts.
std::vector<Trait> traitsOfTask(const Options &options);

/// Sizes of a run's first inputs, and the number of runs.
std::vector<Trait> traitsOfInputs(const Manifest &manifest, const Inputs &first, size_t requests);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_COMPARETASKS_H
