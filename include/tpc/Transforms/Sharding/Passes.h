//===- Passes.h - From the model to one rank's program ----------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_SHARDING_PASSES_H
#define TPC_TRANSFORMS_SHARDING_PASSES_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Sharding/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Sharding/Passes.h.inc"

/// Discardable attributes of the sharded program, see Passes.td.
inline constexpr llvm::StringLiteral kSplitAttr = "tpc.split";
inline constexpr llvm::StringLiteral kHoldAttr = "tpc.hold";
inline constexpr llvm::StringLiteral kTacticsAttr = "tpc.tactics";

/// The tactics that `spec` stands for, in the order in which they run; see
/// AssignShardings' option `tactics`.
SmallVector<std::string> getTacticNames(const ::tpc::ShardSpec &spec);

/// The grid that --megatron-shard asks for, as programs carry it.
GridAttr makeGrid(MLIRContext *context, const ::tpc::ShardSpec &spec);

/// The grid of `module`; none: an error that says which passes have to run before.
FailureOr<GridAttr> requireGrid(ModuleOp module, StringRef passes = "tpc-assign-shardings");

/// Model -> model: what suits the grid better.
void buildRewritePipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec);
/// Model -> sharded: a grid, and a distribution on every value.
void buildShardingPipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec);
/// Sharded -> spmd: one rank's view, with collectives.
void buildSpmdPipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_SHARDING_PASSES_H
