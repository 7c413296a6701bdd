//===- LowerProgram.cpp - Lowering of staged programs to runtime calls ----===//

#include "HostEmitter.h"
#include "Manifest.h"
#include "tpc/Conversion/Env/RuntimeAbi.h"
#include "tpc/Conversion/Passes.h"

#include "tpc/Dialect/State.h"
#include "tpc/Kernel/Kernel.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct LowerProgram : mlir::tpc::impl::LowerProgramBase<LowerProgram> {
  using Base::Base;
  void runOnOperation() override;
};
} // namespace

void LowerProgram::runOnOperation() {
  ModuleOp module = getOperation();
  if (module.lookupSymbol<func::FuncOp>("main") && module.getOps<PipelineOp>().empty()) {
    module.emitError("needs a staged program, with one tpc.pipeline: run tpc-split-stages and "
                     "tpc-schedule-pipeline first");
    return signalPassFailure();
  }
  auto layout = EnvLayout::get(module);
  if (failed(layout))
    return signalPassFailure();
  WeightTable weights;
  for (auto weight : llvm::make_early_inc_range(module.getOps<WeightOp>())) {
    weight->remove();
    weights[weight.getSymName()] = weight;
  }
  HostModule host(module, *layout);

  SmallVector<func::FuncOp> functions, kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      (function->hasAttr(kKernelAttr) ? kernels : functions).push_back(function);
  auto lowered = kernel::getKernels(module);
  StringRef gpuCode = lowered && lowered.lookupSymbol(kGpuCodeSymbol) ? kGpuCodeSymbol : "";
  for (func::FuncOp kernel : kernels)
    if (!lowered ||
        (gpuCode.empty() && !lowered.lookupSymbol<LLVM::LLVMFuncOp>(kernel.getName()))) {
      kernel.emitOpError("is a kernel that is not lowered: run tpc-build-kernels and "
                         "tpc-lower-kernels first");
      return signalPassFailure();
    }
  if (lowered)
    if (auto nodes = lowered->getAttrOfType<ArrayAttr>(kernel::kNodesAttr))
      for (auto name : nodes.getAsRange<StringAttr>())
        host.object.getNode(name);
  auto buffers = llvm::to_vector(module.getOps<buffer::FuncOp>());
  if (buffers.empty() && !(functions.empty() && module.getOps<PipelineOp>().empty())) {
    module.emitError("has no functions on buffers: run tpc-plan-buffers first");
    return signalPassFailure();
  }
  for (buffer::FuncOp function : buffers)
    HostEmitter(host, function.getLoc()).emit(function);

  SmallVector<std::pair<SmallVector<std::string>, std::string>> programs; // stages, manifest
  for (auto pipeline : llvm::make_early_inc_range(module.getOps<PipelineOp>())) {
    SmallVector<std::string> stages;
    ProgramFacts facts = ProgramFacts::get(module, pipeline);
    for (auto stage : pipeline.getBody().getOps<StageOp>())
      stages.push_back("tpc_stage_" + std::to_string(stage.getIndex()));
    auto manifest = buildManifest(module, pipeline, name.empty() ? "program" : StringRef(name),
                                  *layout, weights, facts, digestWeights);
    if (failed(manifest))
      return signalPassFailure();
    pipeline.erase();
    programs.push_back({std::move(stages), std::move(*manifest)});
  }
  for (auto &[stages, manifest] : programs)
    host.object.emit(module, stages, manifest, gpuCode);
  for (func::FuncOp function : llvm::concat<func::FuncOp>(functions, kernels))
    function.erase();
  for (buffer::FuncOp function : buffers)
    function.erase();
  for (auto entry : llvm::make_early_inc_range(module.getOps<buffer::EntryOp>()))
    entry.erase();
  for (auto cache : llvm::make_early_inc_range(module.getOps<CacheOp>()))
    cache.erase();
  if (lowered) {
    module.getBody()->getOperations().splice(module.getBody()->end(),
                                             lowered.getBody()->getOperations());
    lowered.erase();
  }
}
