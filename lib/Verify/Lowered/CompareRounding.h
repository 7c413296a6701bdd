//===- CompareRounding.h - Comparison of rounding errors --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H
#define TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H

#include "CheckKernels.h"
#include "TensorRun.h"

namespace mlir::tpc::lowered {

/// Begins an error message about a result of a kernel.
InFlightDiagnostic reportResult(kernel::FuncOp function, func::FuncOp tensors, unsigned result);

/// Checks that the values that an op narrows to a smaller float type are elements of one tensor
/// value of this type. A kernel may therefore compute in wider types than its tensor function, but
/// not in narrower types.
LogicalResult compareNarrowings(kernel::FuncOp function, const Narrowings &narrowings,
                                const TensorRun &exact);

/// Checks that a kernel rounds exactly where its tensor function rounds: a run of the kernel with
/// rounding casts must have the results of `rounded`, a run of the tensor function with all 16-bit
/// values rounded.
LogicalResult compareCasts(kernel::FuncOp function, func::FuncOp tensors,
                           ArrayRef<MemoryView> results, const TensorRun &rounded);

/// Checks that 32-bit arithmetic changes results by no more than perturbations of inputs and tensor
/// values by a few units in the last place.
LogicalResult compareArithmetic(kernel::FuncOp function, func::FuncOp tensors,
                                ArrayRef<MemoryView> results, const TensorRun &exact,
                                ArrayRef<Data> sensitivity);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H
