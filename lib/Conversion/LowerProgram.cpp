//===- LowerProgram.cpp - Stages and layers as runtime calls --------------===//

#include "HostEmitter.h"
#include "KernelEmitter.h"
#include "Manifest.h"
#include "tpc/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

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
  void emitProgram(ArrayRef<std::string> stages, const std::string &manifest);
};
} // namespace

void LowerProgram::emitProgram(ArrayRef<std::string> stages, const std::string &manifest) {
  ModuleOp module = getOperation();
  Location loc = module.getLoc();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(&getContext());
  std::string text = manifest;
  text.push_back('\0');
  LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, "tpc_manifest",
                         b.getStringAttr(text));
  auto address = [&](StringRef symbol) {
    return abi::Pointer(LLVM::AddressOfOp::create(b, loc, pointer, symbol));
  };
  auto number = [&](int64_t n) {
    return abi::I32(LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(n)));
  };
  // A constant of several values, which are built in its initializer.
  auto aggregate = [&](StringRef name, Type type, LLVM::Linkage linkage,
                       function_ref<SmallVector<Value>()> values) {
    auto global =
        LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, linkage, name, Attribute());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&global.getInitializer());
    Value all = LLVM::UndefOp::create(b, loc, type);
    for (auto [i, value] : llvm::enumerate(values()))
      all = LLVM::InsertValueOp::create(b, loc, all, value, static_cast<int64_t>(i));
    LLVM::ReturnOp::create(b, loc, all);
  };
  aggregate("tpc_stages", LLVM::LLVMArrayType::get(pointer, stages.size()), LLVM::Linkage::Internal,
            [&] {
              return llvm::map_to_vector(stages, [&](StringRef s) -> Value { return address(s); });
            });
  aggregate("tpc_program_v1", abi::getStructType<tpc_program>(&getContext()),
            LLVM::Linkage::External, [&] {
              return abi::Values<tpc_program>{
                  .abi_version = number(TPC_ABI_VERSION),
                  .num_stages = number(stages.size()),
                  .manifest = address("tpc_manifest"),
                  .stages = address("tpc_stages"),
              }
                  .list();
            });
}

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
  ParameterTable parameters(module);
  WeightTable weights;
  for (auto weight : llvm::make_early_inc_range(module.getOps<WeightOp>())) {
    weight->remove();
    weights[weight.getSymName()] = weight;
  }
  HostModule host(module, *layout, parameters);

  SmallVector<func::FuncOp> functions, kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      (function->hasAttr(kKernelAttr) ? kernels : functions).push_back(function);
  for (func::FuncOp kernel : kernels)
    for (Operation &op : kernel.front().without_terminator())
      if (auto inner = dyn_cast<KernelOpInterface>(op); !inner || !inner.isKernelOp()) {
        op.emitOpError() << "stands in the kernel @" << kernel.getName()
                         << ", but is no op that kernels can compute";
        return signalPassFailure();
      }
  for (func::FuncOp function : functions)
    if (failed(HostEmitter(host, function.getLoc()).emitFunction(function)))
      return signalPassFailure();

  for (auto pipeline : llvm::make_early_inc_range(module.getOps<PipelineOp>())) {
    SmallVector<std::string> stages;
    ProgramFacts facts = ProgramFacts::get(module, pipeline);
    for (auto stage : pipeline.getBody().getOps<StageOp>()) {
      stages.push_back("tpc_stage_" + std::to_string(stage.getIndex()));
      if (failed(HostEmitter(host, stage.getLoc()).emitStage(stages.back(), stage)))
        return signalPassFailure();
    }
    auto manifest = buildManifest(module, pipeline, name.empty() ? "program" : StringRef(name),
                                  *layout, parameters, weights, facts, digestWeights);
    if (failed(manifest))
      return signalPassFailure();
    pipeline.erase();
    emitProgram(stages, *manifest);
  }
  for (func::FuncOp kernel : kernels)
    if (failed(KernelEmitter(kernel, host).emit()))
      return signalPassFailure();
  for (func::FuncOp function : llvm::concat<func::FuncOp>(functions, kernels))
    function.erase();
}
