//===- CheckKernels.h - Kernels beside their functions of tensors -*- C++ -*-=//

#ifndef TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H
#define TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H

#include "RunKernel.h"

#include "../Interpret/World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::lowered {

/// The function of tensors that a kernel computes. Fails with an error if there is none.
FailureOr<func::FuncOp> getTensors(ModuleOp program, kernel::FuncOp function);

/// Shows that each constant and each size in a kernel has an origin: an op of the kernel's function
/// of tensors that has just that constant, the definition of such an op, a dimension of a value.
/// And that no constant of the function is missing.
LogicalResult checkConstants(kernel::FuncOp function, func::FuncOp tensors);

/// Shows that integer arithmetic of a kernel is that of its function of tensors: each limit,
/// divisor and addend of an index is one size or constant, and no op makes others of these.
LogicalResult checkIndices(kernel::FuncOp function, func::FuncOp tensors);

/// Shows that index arithmetic of kernels and sizes of buffers stay in 64 bits at the largest sizes
/// that constraints allow, and that nothing is narrowed that is not narrow on tensors.
LogicalResult checkWidths(ModuleOp program);

/// Shows that lowered ops have no attribute that no check covers, such as flags of overflow,
/// fast-math flags, and alignments.
LogicalResult checkAttributes(ModuleOp program);

/// Shows that what a kernel reports of indices outside of their tables is what its function of
/// tensors looks up there: node, size and ids.
LogicalResult checkLookups(kernel::FuncOp function, func::FuncOp tensors);

/// Shows that frames are as large as their slots need, at all sizes that are sampled from the
/// smallest to the largest, and that threads get rows.
LogicalResult checkFrames(ModuleOp program);

/// Runs a kernel alone, on numbers of several magnitudes, and compares what it stores with its
/// function of tensors on the same operands. `isGiven`: integers, and floats once, are those of
/// `memory`; else this says the types alone.
LogicalResult compareKernel(const KernelProgram &kernel, func::FuncOp tensors,
                            ArrayRef<Place> memory, bool isGiven, bool isBrief,
                            interpret::World &world, const interpret::Coordinates &at,
                            function_ref<int64_t(const ::tpc::SymExpr &)> evaluate);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H
