//===- Passes.h - Passes that normalize imported models ---------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_MODEL_PASSES_H
#define TPC_TRANSFORMS_MODEL_PASSES_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Model/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Model/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_MODEL_PASSES_H
