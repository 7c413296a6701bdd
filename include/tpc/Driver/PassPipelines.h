//===- PassPipelines.h - Pass pipelines between the levels of a program ---===//
//
// Each function adds the passes from one level of a program to the next, without verifiers
// (buildLevelPassPipeline of Compile.h also adds verifiers). The pipelines run on modules.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DRIVER_PASSPIPELINES_H
#define TPC_DRIVER_PASSPIPELINES_H

#include "tpc/Conversion/Lower.h"
#include "tpc/Support/ShardSpec.h"

namespace tpc {

/// Import -> model: normalizes the imported program. `wideResidual`: computes the residual of
/// 16-bit models in f32.
void buildModelPassPipeline(mlir::OpPassManager &pm, bool wideResidual = true,
                            const std::string &expertCapacity = "");
/// Import -> step: a generation step, whose result caches are the past tokens followed by the new
/// tokens. Runs the passes of the model level except for tpc-outline-layers.
void buildStepPassPipeline(mlir::OpPassManager &pm);
/// Step -> model: a step on preallocated caches. `last`: outputs contain only each sequence's last
/// token.
void buildPreallocatedStepPassPipeline(mlir::OpPassManager &pm, bool last,
                                       bool wideResidual = true);
/// Options of tpc-derive-backward and tpc-cast-matmuls.
struct GradientOptions {
  double labelSmoothing = 0, zLoss = 0;
  bool decomposeAttention = false;
  std::string matmuls = "f32"; // element type
};
/// Import -> model with a loss and the gradients of all weights.
void buildGradientPassPipeline(mlir::OpPassManager &pm, const GradientOptions &options = {});
/// Model -> model: rewrites that depend on the grid.
void buildRewritePassPipeline(mlir::OpPassManager &pm, const ShardSpec &spec);
/// Model -> sharded: a grid, and a distribution on every value.
void buildShardingPassPipeline(mlir::OpPassManager &pm, const ShardSpec &spec);
/// Options of tpc-dispatch-experts.
struct ExpertDispatch {
  std::string form = "auto";
  double seconds = 0;
};
/// Sharded -> spmd: the program of one rank, with collectives.
void buildSpmdPassPipeline(mlir::OpPassManager &pm, const ShardSpec &spec,
                           const ExpertDispatch &expertDispatch = {});
/// Spmd -> staged: one function for each stage, and the schedule.
void buildStagesPassPipeline(mlir::OpPassManager &pm);
/// Staged -> kernels: selects library calls and outlines all other ops as kernels.
void buildKernelsPassPipeline(mlir::OpPassManager &pm);
/// Kernels -> buffers: adds buffer functions (runtime calls on planned memory).
void buildBuffersPassPipeline(mlir::OpPassManager &pm);
/// Buffers -> the LLVM dialect.
void buildLoweringPassPipeline(mlir::OpPassManager &pm, const mlir::tpc::LoweringOptions &options);

/// Registers pipelines as options of tpc-opt: for each form of the model level, and for lowering.
void registerPassPipelines();

} // namespace tpc

#endif // TPC_DRIVER_PASSPIPELINES_H
