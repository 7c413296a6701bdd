//===- CompareTensors.h - Comparison of tensor functions --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPARETENSORS_H
#define TPC_LIB_VERIFY_LOWERED_COMPARETENSORS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace mlir::tpc::lowered {

/// Checks that the tensor functions in `lowered` and the program `staged` are equal up to the
/// rewrites of lowering: expressions (ops, attributes, constants and types), and the order of
/// communication. Errors name the op and the difference.
LogicalResult compareTensors(ModuleOp staged, ModuleOp lowered);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPARETENSORS_H
