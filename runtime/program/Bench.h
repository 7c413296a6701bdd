//===- Bench.h - Benchmark of a program -----------------------------------===//

#ifndef TPC_RT_PROGRAM_BENCH_H
#define TPC_RT_PROGRAM_BENCH_H

#include "program/Execution.h"

namespace tpc::rt {

/// Returns the inputs of the files in `options`; without files, generated inputs of the sizes in
/// options.shape.
Inputs benchInputs(const Manifest &manifest, const Options &options);

/// Runs steps on these inputs; rank 0's process prints JSON.
void bench(Execution &execution, const Manifest &manifest, const Options &options);

/// Returns, for each stage, axis and kind of collective, the counter of the rank with the most
/// bytes. `byRank` has each rank's counters of one step.
std::vector<std::pair<int, Counters::Row>>
largestByStage(const Manifest &manifest, const std::vector<std::vector<Counters::Row>> &byRank);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_BENCH_H
