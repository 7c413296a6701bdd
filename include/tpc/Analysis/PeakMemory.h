//===- PeakMemory.h - Peak bytes of live values -----------------*- C++ -*-===//
//
// Estimates the peak activation memory of each stage of a staged program: the maximum, over the ops
// of a micro-batch, of the bytes of all live values, without buffer sharing. Includes the values of
// a called layer during the call and the prologue's values; excludes weights (see Report.h) and
// intermediate values of kernels. Sizes are those of each stage's rank with coordinate 0 on all
// other axes, which has the largest shard of every value. The estimate serves to compare
// partitions; the executable's --describe prints the actual allocation.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_PEAKMEMORY_H
#define TPC_ANALYSIS_PEAKMEMORY_H

#include "tpc/Analysis/Nominal.h"

namespace mlir::tpc {

/// Returns the bytes of each stage. `module` must contain a tpc.pipeline.
std::vector<int64_t> getPeakActivationBytes(ModuleOp module, const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PEAKMEMORY_H
