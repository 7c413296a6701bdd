//===- CompareRounding.h - Comparison of rounding errors --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H
#define TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H

#include "CheckKernels.h"
#include "TensorRun.h"

namespace mlir::tpc::lowered {

/// Starts an error about a result of a kernel.
InFlightDiagnostic reportResult(kernel::FuncOp function, func::FuncOp tensors, unsigned result);

/// Checks that each op that narrows floats narrows elements of one tensor value of the narrow type.
/// A kernel may therefore compute in wider types than its tensor function, but not in narrower
/// ones.
LogicalResult compareNarrowings(kernel::FuncOp function, const Narrowings &narrowings,
                                const TensorRun &exact);

/// Checks that a kernel whose casts round stores the results of its tensor function with each
/// 16-bit value rounded, so it rounds nowhere else. `rounded`: the run of the tensor function.
LogicalResult compareCasts(kernel::FuncOp function, func::FuncOp tensors,
                           ArrayRef<MemoryView> results, const TensorRun &rounded);

/// Checks that 32-bit arithmetic changes results by no more than a few units in the last place of
/// inputs and tensor values do.
LogicalResult compareArithmetic(kernel::FuncOp function, func::FuncOp tensors,
                                ArrayRef<MemoryView> results, const TensorRun &exact,
                                ArrayRef<Data> sensitivity);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H
