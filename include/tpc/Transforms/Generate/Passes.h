//===- Passes.h - Passes that create generation steps -----------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_GENERATE_PASSES_H
#define TPC_TRANSFORMS_GENERATE_PASSES_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Generate/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Generate/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_GENERATE_PASSES_H
