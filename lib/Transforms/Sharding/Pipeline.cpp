//===- Pipeline.cpp - The passes of sharding, in order --------------------===//

#include "tpc/Transforms/Sharding/Passes.h"

using namespace mlir;
using namespace mlir::tpc;

FailureOr<GridAttr> mlir::tpc::requireGrid(ModuleOp module, StringRef passes) {
  if (GridAttr grid = GridAttr::lookup(module))
    return grid;
  return emitError(module.getLoc())
         << "has no " << TpcDialect::kGridAttr << ": run " << passes << " first";
}

void mlir::tpc::buildRewritePipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec) {
  if (spec.grid.size(::tpc::Axis::TP) == 1 || spec.isTensor2D())
    return;
  RepeatKvHeadsOptions repeat;
  repeat.shard = spec.str();
  pm.addPass(createRepeatKvHeads(repeat));
}

void mlir::tpc::buildShardingPipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec) {
  AssignShardingsOptions assign;
  assign.shard = spec.str();
  pm.addPass(createAssignShardings(assign));
  pm.addPass(createInsertReshards());
}

void mlir::tpc::buildSpmdPipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec) {
  LowerReshardsOptions lower;
  lower.allowReshard = spec.allowReshard;
  pm.addPass(createLowerReshards(lower));
  pm.addPass(createLocalize());
  pm.addPass(createOptimizeCollectives());
  pm.addPass(createCoalesceCollectives());
}
