//===- Pipeline.cpp - The model stage, pass by pass -----------------------===//

#include "tpc/Transforms/Model/Pipeline.h"
#include "tpc/Transforms/Model/Passes.h"
#include "tpc/Transforms/Sharding/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mlir::tpc::buildModelPipeline(OpPassManager &pm) {
  pm.addPass(createHoldAnnotations());
  OpPassManager &fn = pm.nest<func::FuncOp>();
  fn.addPass(createSimplify());
  fn.addPass(createCSEPass());

  fn.addPass(createRaiseNorms());
  fn.addPass(createRaiseActivations());
  fn.addPass(createSplitFusedProjections());
  fn.addPass(createRaiseAttention());
  // Halves of heads that are exchanged are a rotary embedding's, if they can be.
  fn.addPass(createRaiseRolls());

  fn.addPass(createNormalizeTokens());
  fn.addPass(createCSEPass());
  fn.addPass(createReportUnraised());
  fn.addPass(createDivideSoftmax());

  pm.addPass(createPlaceAnnotations());
  pm.addPass(createOutlineLayers());
}

void mlir::tpc::registerModelPipeline() {
  PassPipelineRegistration<>("tpc-model-pipeline", "From imported ops to the model's normal form",
                             [](OpPassManager &pm) { buildModelPipeline(pm); });
}
