//===- KernelOp.h - Queries of ops that kernels compute ---------*- C++ -*-===//

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

/// Returns the value that a kernel writes for a result: the appended slice if the result aliases an
/// operand.
Value getWritten(Value result);
/// Returns the operand whose memory a result aliases; null if it has memory of its own.
Value getAliasedOperand(Value result);

/// Attaches KernelOpInterface to the tpc dialect's ops.
void registerKernelModels(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_KERNELS_KERNELOP_H
