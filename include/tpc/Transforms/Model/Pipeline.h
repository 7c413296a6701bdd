//===- Pipeline.h - The model stage, pass by pass ----------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_MODEL_PIPELINE_H
#define TPC_TRANSFORMS_MODEL_PIPELINE_H

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace mlir::tpc {

/// From what the importer makes to the model's normal form. Runs on a module.
void buildModelPipeline(OpPassManager &pm);

/// `--tpc-model-pipeline`.
void registerModelPipeline();

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_MODEL_PIPELINE_H
