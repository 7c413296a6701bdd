//===- Passes.h - Passes that derive gradients ------------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_BACKWARD_PASSES_H
#define TPC_TRANSFORMS_BACKWARD_PASSES_H

#include "tpc/Dialect/CoverageColumn.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Backward/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Backward/Passes.h.inc"

/// Attaches the gradient models to all ops.
void registerGradientModels(DialectRegistry &registry);
/// Returns the column of gradients for the table of coverage.
SmallVector<CoverageColumn> getGradientCoverage();

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_BACKWARD_PASSES_H
