//===- CheckShape.h - Is --shape one of the model's? ------------------------===//

#ifndef TPC_LIB_DRIVER_CHECKSHAPE_H
#define TPC_LIB_DRIVER_CHECKSHAPE_H

#include "tpc/Driver/ShapeSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tpc {

/// `flag`: one that needs all sizes, or empty.
llvm::Error checkShape(mlir::ModuleOp module, const ShapeBinding &shape, llvm::StringRef flag);

} // namespace tpc

#endif // TPC_LIB_DRIVER_CHECKSHAPE_H
