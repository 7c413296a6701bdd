//===- CompareTasks.h - flags that all ranks must have in common ----------===//

#ifndef TPC_RT_PROGRAM_COMPARETASKS_H
#define TPC_RT_PROGRAM_COMPARETASKS_H

#include "core/World.h"
#include "program/CommandLine.h"
#include "program/Inputs.h"

namespace tpc::rt {

/// What a run does by its flags: where ranks differ in it they communicate differently. Flags that
/// concern one process only, such as --verbose or --threads, are left out, and so are names of
/// files, which may be others on other hosts.
std::vector<Trait> traitsOfTask(const Options &options);

/// The sizes of a run's first inputs, and how many runs there are.
std::vector<Trait> traitsOfInputs(const Manifest &manifest, const Inputs &first, size_t requests);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_COMPARETASKS_H
