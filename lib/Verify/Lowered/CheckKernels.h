//===- CheckKernels.h - Checks of kernels against tensor ops ----*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H
#define TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H

#include "RunKernel.h"

#include "../Interpret/World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::lowered {

/// Returns the tensor function that a kernel computes; an error if there is none.
FailureOr<func::FuncOp> getTensors(ModuleOp program, kernel::FuncOp function);

/// Checks that each constant and size in a kernel has an origin: an op of the kernel's tensor
/// function with the same constant, the definition of such an op, or a dimension of a value. Checks
/// also that no constant of the tensor function is missing.
LogicalResult checkConstants(kernel::FuncOp function, func::FuncOp tensors);

/// Checks that integer arithmetic of a kernel matches its tensor function: each limit, divisor and
/// addend of an index is one size or constant, and no op computes others from these.
LogicalResult checkIndices(kernel::FuncOp function, func::FuncOp tensors);

/// Checks that index arithmetic of kernels and sizes of buffers fit in 64 bits at the largest sizes
/// that constraints allow, and that a kernel narrows only values that are narrow on tensors.
LogicalResult checkWidths(ModuleOp program);

/// Checks that lowered ops have no attributes that no check covers, such as overflow flags,
/// fast-math flags, and alignments.
LogicalResult checkAttributes(ModuleOp program);

/// Checks that the module of kernels has only kernels, and that each other symbol of the lowered
/// program is a tensor function of a kernel, or is in the staged program too.
LogicalResult checkFunctions(ModuleOp staged, ModuleOp program);

/// Checks that a kernel's bounds checks match the lookups of its tensor function: node, size and
/// ids.
LogicalResult checkLookups(kernel::FuncOp function, func::FuncOp tensors);

/// Checks that frames are as large as their slots require, at sampled sizes from the smallest to
/// the largest, and that threads have at least one row.
LogicalResult checkFrames(ModuleOp program);

/// Runs a kernel alone on numbers of several magnitudes, and compares its results with its tensor
/// function on the same operands. `isGiven`: integers, and floats in one of the runs, are those of
/// `memory`; else `memory` only gives the types.
LogicalResult compareKernel(const KernelProgram &kernel, func::FuncOp tensors,
                            ArrayRef<MemoryView> memory, bool isGiven, bool isBrief,
                            interpret::World &world, const interpret::Coordinates &at,
                            function_ref<int64_t(const ::tpc::SymExpr &)> evaluate);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H
