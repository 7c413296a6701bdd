//===- CompareTensors.h - Functions of tensors before and after -*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPARETENSORS_H
#define TPC_LIB_VERIFY_LOWERED_COMPARETENSORS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace mlir::tpc::lowered {

/// Shows that the functions of tensors in `lowered` compute what `staged` does, as expressions: the
/// same ops, attributes, constants and types, and the same communication in the same order, up to
/// what lowering rewrites. Errors name the op and what differs.
LogicalResult compareTensors(ModuleOp staged, ModuleOp lowered);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPARETENSORS_H
