//===- CheckShape.h - Check of --shape against the model --------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_CHECKSHAPE_H
#define TPC_LIB_DRIVER_CHECKSHAPE_H

#include "tpc/Driver/ShapeSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tpc {

/// Binds the capacity of sliding-window caches if `shape` does not: to the capacity that prompt
/// chunks of the default size need, or of the bound number of new tokens if that is larger.
void bindCapacities(mlir::ModuleOp module, ShapeBinding &shape);

/// Returns an error if `shape` has an unknown size, or one that violates a constraint of the model.
/// If `flag` is not empty, that flag needs all sizes, and an unbound size is an error, too.
llvm::Error checkShape(mlir::ModuleOp module, const ShapeBinding &shape, llvm::StringRef flag);

/// Returns whether --shape leaves sizes unbound.
bool hasUnboundSizes(mlir::ModuleOp module, const ShapeBinding &shape);

} // namespace tpc

#endif // TPC_LIB_DRIVER_CHECKSHAPE_H
