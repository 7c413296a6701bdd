//===- CheckShape.h - Check of --shape against the model --------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_CHECKSHAPE_H
#define TPC_LIB_DRIVER_CHECKSHAPE_H

#include "tpc/Driver/ShapeSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tpc {

/// Binds the capacity of sliding-window caches, if it is not in `shape`, to its value for prompt
/// chunks of the default size or, if larger, of the bound number of tokens.
void bindCapacities(mlir::ModuleOp module, ShapeBinding &shape);

/// Returns an error for unknown sizes, for sizes that violate a constraint of the model and, if
/// `flag` is not empty, for unbound sizes, which that flag needs.
llvm::Error checkShape(mlir::ModuleOp module, const ShapeBinding &shape, llvm::StringRef flag);

/// Returns whether --shape leaves sizes unbound.
bool hasUnboundSizes(mlir::ModuleOp module, const ShapeBinding &shape);

} // namespace tpc

#endif // TPC_LIB_DRIVER_CHECKSHAPE_H
