//===- PlanBuffers.cpp - Pass that plans buffers --------------------------===//

#include "BufferPlanner.h"
#include "tpc/Conversion/Env/SizeEmitter.h"
#include "tpc/Conversion/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_PLANBUFFERS
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct PlanBuffers : mlir::tpc::impl::PlanBuffersBase<PlanBuffers> {
  void runOnOperation() override;
  LogicalResult plan(ModuleOp module);
};
} // namespace

LogicalResult PlanBuffers::plan(ModuleOp module) {
  auto pipelines = llvm::to_vector(module.getOps<PipelineOp>());
  if (module.lookupSymbol<func::FuncOp>("main") && pipelines.empty())
    return module.emitError("needs a staged program, with one tpc.pipeline: run tpc-split-stages "
                            "and tpc-schedule-pipeline first");
  if (auto functions = module.getOps<buffer::FuncOp>(); !functions.empty())
    return (*functions.begin()).emitOpError("exists already: a program is planned once");
  // Checks that all symbols have a value at run time.
  if (failed(EnvLayout::get(module)))
    return failure();
  ParameterTable parameters(module);
  BufferModule shared(module, parameters);
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    // Skips functions that no stage calls.
    if (function.isExternal() || function->hasAttr(kKernelAttr) ||
        (!pipelines.empty() && !parameters.isReached(function)))
      continue;
    if (failed(BufferPlanner(shared).planFunction(function)))
      return failure();
  }
  for (PipelineOp pipeline : pipelines)
    for (auto stage : pipeline.getBody().getOps<StageOp>())
      if (failed(BufferPlanner(shared).planStage(pipeline, stage)))
        return failure();
  return success();
}

void PlanBuffers::runOnOperation() {
  if (failed(plan(getOperation())))
    signalPassFailure();
}
