//===- PeakMemory.h - Peak bytes of live values -----------------*- C++ -*-===//
//
// For each stage of a staged program, on the rank with coordinate 0 on every axis (which has the
// largest shard of everything): the maximum over the ops of a micro-batch of the sum of live
// values, each in a buffer of its own. Values of a layer that is being called and values that stay
// live for all micro-batches are included. Weights (see Report.h) and registers of kernels are not
// counted. The result compares partitions; the executable's --describe prints the actual
// allocation.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_PEAKMEMORY_H
#define TPC_ANALYSIS_PEAKMEMORY_H

#include "tpc/Analysis/Nominal.h"

namespace mlir::tpc {

/// Returns the bytes by stage. `module` has a tpc.pipeline.
std::vector<int64_t> getPeakActivationBytes(ModuleOp module, const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PEAKMEMORY_H
