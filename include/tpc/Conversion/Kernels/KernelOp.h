//===- KernelOp.h - Ops that become part of kernels -------------*- C++ -*-===//

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

/// What a kernel writes of a result: of one that lies in an operand's memory, the part that is new.
Value getWritten(Value result);
/// The operand in whose memory a result lies; null: it has its own.
Value getKept(Value result);

/// How ops compute an element: KernelOpInterface of the tpc dialect's ops.
void registerKernelModels(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_KERNELS_KERNELOP_H
