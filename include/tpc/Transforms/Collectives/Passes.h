//===- Passes.h - Passes that create and optimize collectives ---*- C++ -*-===//

#ifndef TPC_TRANSFORMS_COLLECTIVES_PASSES_H
#define TPC_TRANSFORMS_COLLECTIVES_PASSES_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Collectives/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Collectives/Passes.h.inc"

/// Returns the grid of `module`. Without a grid, emits an error with the names of the passes that
/// must run before.
FailureOr<MeshAttr> requireGrid(ModuleOp module, StringRef passes = "tpc-assign-shardings");

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_COLLECTIVES_PASSES_H
