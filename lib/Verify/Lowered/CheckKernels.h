//===- CheckKernels.h - Checks of kernels against tensor ops ----*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H
#define TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H

#include "KernelChoices.h"
#include "SizeRanges.h"

#include "../Interpret/World.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::lowered {

/// Returns the tensor function of a kernel. Emits an error if it is missing.
FailureOr<func::FuncOp> getTensors(ModuleOp program, kernel::FuncOp function);

/// Returns the values of a tensor function that are its kernel's operands: arguments, except caches
/// to which results are appended.
SmallVector<Value> getKernelOperands(func::FuncOp tensors);

/// Checks that each constant and size in a kernel has an origin: an op of the kernel's tensor
/// function with the same constant, the definition of such an op, or a dimension of a value. Checks
/// also that no constant of the tensor function is missing.
LogicalResult checkConstants(kernel::FuncOp function, func::FuncOp tensors);

/// Checks that operands of comparisons, maxima and minima of floats depend on the same operands of
/// the kernel as on tensors.
LogicalResult checkDecisions(kernel::FuncOp function, func::FuncOp tensors);

/// Returns the predicate of the comparison of floats in an element-wise op's definition; nothing
/// for ops without one.
std::optional<arith::CmpFPredicate> getPredicate(Operation *op);

/// Builds the definition of one element of an element-wise op in an empty block, whose arguments
/// become the elements of the operands, with 16-bit floats as f32.
void buildDefinition(ScalarOpInterface op, Block &block);

/// Checks that a kernel has no float operations, loops or long chains of integer operations that
/// its tensor function does not require, and no operations whose results are not used.
LogicalResult checkArithmetic(kernel::FuncOp function, func::FuncOp tensors);

/// Checks that integer arithmetic of a kernel matches its tensor function: each limit, divisor and
/// addend of an index is a single size or constant, not a value that is computed from several.
LogicalResult checkIndices(kernel::FuncOp function, func::FuncOp tensors);

/// Checks that index arithmetic of kernels and sizes of buffers fit in 64 bits at the largest sizes
/// that constraints allow. Checks that a kernel narrows only values that are narrow on tensors.
LogicalResult checkWidths(ModuleOp program);

/// Returns the comparisons of integers in a kernel that have the same result at all sizes and on
/// all ranks, according to intervals of their operands, with their results; and loops that have no
/// iterations.
DenseMap<Operation *, bool> findDecided(kernel::FuncOp function, func::FuncOp tensors,
                                        SizeRanges &sizes);

/// Checks that other checks cover all attributes of lowered ops. Overflow flags, fast-math flags
/// and alignments, for example, are errors.
LogicalResult checkAttributes(ModuleOp program);

/// Checks that the module of kernels contains only kernels. Each other symbol of the lowered
/// program must be the tensor function of a kernel or a symbol of the staged program.
LogicalResult checkFunctions(ModuleOp staged, ModuleOp program);

/// Checks that the bounds checks of a kernel match the lookups of its tensor function: ONNX node,
/// size and ids.
LogicalResult checkLookups(kernel::FuncOp function, func::FuncOp tensors);

/// Checks, at sampled sizes from the smallest to the largest, that frames have exactly the size
/// that their slots require and that threads have at least one row.
LogicalResult checkFrames(ModuleOp program);

/// Runs a kernel and its tensor function on equal operands of several magnitudes, and compares the
/// results. `isGiven`: some runs use the integers of `memory`, and one run uses its floats;
/// otherwise only the types of `memory` are used. `isBrief`: one magnitude, without comparing the
/// rounding. `outcomes`: receives those of runs whose results were compared.
LogicalResult compareKernel(const KernelProgram &kernel, func::FuncOp tensors,
                            ArrayRef<MemoryView> memory, bool isGiven, bool isBrief,
                            interpret::World &world, const interpret::Coordinates &at,
                            function_ref<int64_t(const ::tpc::SymExpr &)> evaluate,
                            KernelOutcomes &outcomes);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_CHECKKERNELS_H
