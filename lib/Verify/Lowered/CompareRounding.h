//===- CompareRounding.h - Where and how much a kernel rounds ----*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H
#define TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H

#include "CheckKernels.h"
#include "TensorRun.h"

namespace mlir::tpc::lowered {

/// The beginning of an error of a kernel's result.
InFlightDiagnostic reportResult(kernel::FuncOp function, func::FuncOp tensors, unsigned result);

/// Shows that each op that narrows floats does so to elements of one value on tensors that is of
/// the narrow type. So a kernel may compute wider than its function of tensors, but not narrower.
LogicalResult compareNarrowings(kernel::FuncOp function, const Narrowings &narrowings,
                                const TensorRun &exact);

/// Shows that a kernel whose casts round stores what its function of tensors computes with each
/// value of 16 bits rounded: it rounds at no other places. `rounded`: a run of that kind.
LogicalResult compareCasts(kernel::FuncOp function, func::FuncOp tensors, ArrayRef<Place> results,
                           const TensorRun &rounded);

/// Shows that rounding of arithmetic in 32 bits does not change results by more than some units in
/// the last place of inputs, and of values on tensors, do.
LogicalResult compareArithmetic(kernel::FuncOp function, func::FuncOp tensors,
                                ArrayRef<Place> results, const TensorRun &exact,
                                ArrayRef<Data> sensitivity);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPAREROUNDING_H
