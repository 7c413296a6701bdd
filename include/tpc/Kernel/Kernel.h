//===- Kernel.h - The tpc_kernel dialect ------------------------*- C++ -*-===//

#ifndef TPC_KERNEL_KERNEL_H
#define TPC_KERNEL_KERNEL_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "tpc/Kernel/KernelDialect.h.inc"
#include "tpc/Kernel/KernelEnums.h.inc"

namespace mlir::tpc::kernel {
class RowsOp;
} // namespace mlir::tpc::kernel

#define GET_OP_CLASSES
#include "tpc/Kernel/KernelOps.h.inc"

namespace mlir::tpc::kernel {

/// Returns the nested module with the program's kernels, or null. A kernel has the name of the
/// tensor function that it implements.
ModuleOp getKernels(ModuleOp program);
/// Attribute of the module with lowered kernels: names of the ONNX nodes in run-time errors of
/// kernels, which refer to a name by its index.
inline constexpr llvm::StringLiteral kNodesAttr = "tpc_kernel.nodes";

} // namespace mlir::tpc::kernel

#endif // TPC_KERNEL_KERNEL_H
