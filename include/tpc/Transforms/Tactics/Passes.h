//===- Passes.h - Passes that decide splits ---------------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_TACTICS_PASSES_H
#define TPC_TRANSFORMS_TACTICS_PASSES_H

#include "tpc/Dialect/ShardOption.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Tactics/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Tactics/Passes.h.inc"

/// Returns the grid of --megatron-shard as an attribute.
MeshAttr makeMeshAttr(MLIRContext *context, const ::tpc::ShardSpec &spec);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_TACTICS_PASSES_H
