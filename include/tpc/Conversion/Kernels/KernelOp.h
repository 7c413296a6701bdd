//===- KernelOp.h - Queries on KernelOpInterface ----------------*- C++ -*-===//

#ifndef TPC_CONVERSION_KERNELS_KERNELOP_H
#define TPC_CONVERSION_KERNELS_KERNELOP_H

#include "mlir/IR/OpDefinition.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::tpc {
class KernelBuilder;
} // namespace mlir::tpc

#include "tpc/Interfaces/KernelInterfaces.h.inc"

namespace mlir::tpc {

/// Returns the value that a kernel writes to a result's memory: the new tokens for a tpc.append,
/// else the result itself.
Value getWritten(Value result);
/// Returns the operand whose memory a result aliases; null if the result has its own memory.
Value getAliasedOperand(Value result);

/// Attaches KernelOpInterface to the tpc dialect's ops.
void registerKernelModels(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_KERNELS_KERNELOP_H
