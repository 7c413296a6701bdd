//===- Compile.cpp - From a file to any stage ------------------------------===//

#include "tpc/Driver/Compile.h"

#include "tpc/Analysis/Passes.h"
#include "tpc/Driver/Register.h"
#include "tpc/Import/ONNX/Import.h"
#include "tpc/Transforms/Model/Pipeline.h"
#include "tpc/Transforms/Pipeline/Passes.h"
#include "tpc/Transforms/Sharding/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace tpc;

static constexpr llvm::StringLiteral emitNames[] = {"import", "model", "sharded", "spmd",
                                                    "staged", "llvm",  "obj",     "exe"};

llvm::StringRef tpc::emitName(Emit emit) { return emitNames[unsigned(emit)]; }

static Emit next(Emit stage) { return Emit(unsigned(stage) + 1); }

void tpc::buildStagePipeline(mlir::OpPassManager &pm, Emit stage, const ShardSpec &spec,
                             std::shared_ptr<mlir::tpc::ReferenceModel> reference) {
  switch (stage) {
  case Emit::Model:
    if (reference) // before anything is folded
      pm.addPass(mlir::tpc::createVerifyBounds());
    mlir::tpc::buildModelPipeline(pm);
    if (reference)
      pm.addPass(mlir::tpc::createRecordReference(reference));
    return;
  case Emit::Sharded:
    return mlir::tpc::buildShardingPipeline(pm, spec);
  case Emit::Spmd:
    mlir::tpc::buildSpmdPipeline(pm, spec);
    if (reference)
      pm.addPass(mlir::tpc::createVerifyEquivalence(reference));
    return;
  case Emit::Staged:
    mlir::tpc::buildPipelinePipeline(pm, spec);
    pm.addPass(mlir::tpc::createCheckLinks());
    if (reference) {
      pm.addPass(mlir::tpc::createVerifyBounds());
      pm.addPass(mlir::tpc::createVerifyEquivalence(reference));
    }
    return;
  default:
    llvm_unreachable("no passes on programs lead to this stage");
  }
}

void tpc::registerMegatronShardPipeline() {
  // The option text is "tp8,pp4" as it stands, not MLIR's name=value.
  mlir::registerPassPipeline(
      "megatron-shard",
      "Split an imported program over ranks, up to pipeline stages: --megatron-shard=tp8,pp4",
      [](mlir::OpPassManager &pm, llvm::StringRef text,
         llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> onError) {
        std::string error;
        std::optional<ShardSpec> spec = ShardSpec::parse(text, error);
        if (!spec)
          return onError("--megatron-shard: " + error);
        auto reference = std::make_shared<mlir::tpc::ReferenceModel>();
        for (Emit stage = Emit::Model; stage <= Emit::Staged; stage = next(stage))
          buildStagePipeline(pm, stage, *spec, reference);
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}

Compilation::Compilation(mlir::MLIRContext &context, CompileOptions options)
    : context(context), options(std::move(options)) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
}

mlir::LogicalResult Compilation::advance(Emit stage, OnStep onStep) {
  assert(stage <= Emit::Llvm && "later stages are no modules");
  if (!module) {
    onStep("reading " + options.input);
    module = importOnnxModel(options.input, &context);
    if (!module)
      return mlir::failure();
    reached = Emit::Import;
  }
  while (reached < stage) {
    constexpr llvm::StringLiteral what[] = {"",
                                            "recognizing the model",
                                            "distributing",
                                            "making one rank's program",
                                            "cutting into stages",
                                            "lowering"};
    Emit target = next(reached);
    onStep(what[unsigned(target)]);
    mlir::PassManager pm(&context);
    if (target == Emit::Llvm)
      mlir::tpc::buildLoweringPipeline(pm, options.lowering);
    else
      buildStagePipeline(pm, target, options.spec, reference);
    if (mlir::failed(pm.run(*module)))
      return mlir::failure();
    reached = target;
  }
  return mlir::success();
}

llvm::Expected<std::string> Compilation::makeLLVM(OnStep onStep) {
  onStep("optimizing");
  return mlir::tpc::emitLLVM(*module, options.lowering);
}

llvm::Expected<llvm::SmallVector<char>> Compilation::makeObject(OnStep onStep) {
  onStep("optimizing and generating code");
  return mlir::tpc::emitObject(*module, options.lowering);
}

llvm::Error Compilation::makeExecutable(llvm::StringRef path, OnStep onStep) {
  llvm::Expected<llvm::SmallVector<char>> object = makeObject(onStep);
  if (!object)
    return object.takeError();
  onStep("linking");
  return mlir::tpc::linkExecutable(*object, path, {});
}
