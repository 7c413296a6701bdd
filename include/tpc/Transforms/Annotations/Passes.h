//===- Passes.h - Passes for user annotations -------------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_ANNOTATIONS_PASSES_H
#define TPC_TRANSFORMS_ANNOTATIONS_PASSES_H

#include "tpc/Dialect/ShardOption.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Annotations/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Annotations/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_ANNOTATIONS_PASSES_H
