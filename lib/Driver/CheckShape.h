//===- CheckShape.h - Check of --shape against the model --------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_CHECKSHAPE_H
#define TPC_LIB_DRIVER_CHECKSHAPE_H

#include "tpc/Driver/ShapeSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tpc {

/// If `shape` does not bind the capacity of sliding-window caches, binds it to the capacity that
/// prompt chunks need: chunks of kPrefillChunk tokens, or of the bound number of tokens of a step
/// if that is larger.
void bindCapacities(mlir::ModuleOp module, ShapeBinding &shape);

/// Returns an error if `shape` has an unknown size, or one that violates a constraint of the model.
/// If `flag` is not empty, an unbound size is an error, too: the flag needs all sizes.
llvm::Error checkShape(mlir::ModuleOp module, const ShapeBinding &shape, llvm::StringRef flag);

/// Returns whether --shape leaves sizes unbound.
bool hasUnboundSizes(mlir::ModuleOp module, const ShapeBinding &shape);

} // namespace tpc

#endif // TPC_LIB_DRIVER_CHECKSHAPE_H
