//===- CheckShape.h - Is --shape one of the model's? ------------------------===//

#ifndef TPC_LIB_DRIVER_CHECKSHAPE_H
#define TPC_LIB_DRIVER_CHECKSHAPE_H

#include "tpc/Driver/ShapeSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tpc {

/// What windowed caches have room for, where `shape` does not say so: what programs have that are
/// run with the prompts' chunks of their default.
void bindRoom(mlir::ModuleOp module, ShapeBinding &shape);

/// `flag`: one that needs all sizes, or empty.
llvm::Error checkShape(mlir::ModuleOp module, const ShapeBinding &shape, llvm::StringRef flag);

/// Whether there are sizes that --shape has not bound.
bool hasUnboundSizes(mlir::ModuleOp module, const ShapeBinding &shape);

} // namespace tpc

#endif // TPC_LIB_DRIVER_CHECKSHAPE_H
