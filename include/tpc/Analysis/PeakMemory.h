//===- PeakMemory.h - Bytes that are live at once ---------------*- C++ -*-===//
//
// Of each stage of a staged program, on the rank with coordinate 0 on every axis, which has the
// largest part of everything: the largest sum of the values that are live at one op of a
// micro-batch, each in a buffer of its own, those of a layer that is being called and what
// is held for all micro-batches included. Weights are not counted (Report.h has them), nor what
// kernels keep in registers: this compares partitions, the executable's --describe says what is
// allocated.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_PEAKMEMORY_H
#define TPC_ANALYSIS_PEAKMEMORY_H

#include "tpc/Analysis/Nominal.h"

namespace mlir::tpc {

/// By stage. `module` has a tpc.pipeline.
std::vector<int64_t> getPeakActivationBytes(ModuleOp module, const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PEAKMEMORY_H
