//===- Pipeline.cpp - The passes of staging, in order ---------------------===//

#include "tpc/Transforms/Pipeline/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mlir::tpc::buildPipelinePipeline(OpPassManager &pm, const ::tpc::ShardSpec &) {
  pm.addPass(createSplitStages());
  pm.addPass(createSchedulePipeline());
  pm.addPass(createCSEPass());
}
