//===- PassPipelines.h - Which passes lead to which level -------*- C++ -*-===//
//
// Each function adds the passes that lead from one level of a program to the next, without
// verifiers (buildLevelPassPipeline of Compile.h adds them). They run on modules.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DRIVER_PASSPIPELINES_H
#define TPC_DRIVER_PASSPIPELINES_H

#include "tpc/Conversion/Lower.h"
#include "tpc/Support/ShardSpec.h"

namespace tpc {

/// Import -> model: what the importer makes, in normal form. `wideResidual`: sums of the residual
/// are f32, be the model of 16 bits.
void buildModelPassPipeline(mlir::OpPassManager &pm, bool wideResidual = true);
/// Import -> step: one step of a generation, which gives caches with its tokens behind those of
/// the past, in normal form but for layers.
void buildStepPassPipeline(mlir::OpPassManager &pm);
/// Step -> model: one that takes whole caches, at lengths that are data. `last`: its outputs are of
/// each sequence's last token.
void buildPlacedStepPassPipeline(mlir::OpPassManager &pm, bool last, bool wideResidual = true);
/// Model -> model: what suits the grid better.
void buildRewritePassPipeline(mlir::OpPassManager &pm, const ShardSpec &spec);
/// Model -> sharded: a grid, and a distribution on every value.
void buildShardingPassPipeline(mlir::OpPassManager &pm, const ShardSpec &spec);
/// Sharded -> spmd: one rank's view, with collectives.
void buildSpmdPassPipeline(mlir::OpPassManager &pm, const ShardSpec &spec);
/// Spmd -> staged: one function for each stage, and the schedule.
void buildStagesPassPipeline(mlir::OpPassManager &pm);
/// Staged -> kernels: what libraries compute is known, and the rest is in kernels, as IR.
void buildKernelsPassPipeline(mlir::OpPassManager &pm);
/// Kernels -> buffers: runtime calls on planned memory, beside the tensors.
void buildBuffersPassPipeline(mlir::OpPassManager &pm);
/// Buffers -> the LLVM dialect.
void buildLoweringPassPipeline(mlir::OpPassManager &pm, const mlir::tpc::LoweringOptions &options);

/// `--tpc-model-pipeline` and `--tpc-lower-to-llvm`.
void registerPassPipelines();

} // namespace tpc

#endif // TPC_DRIVER_PASSPIPELINES_H
