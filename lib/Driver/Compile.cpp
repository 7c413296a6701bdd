//===- Compile.cpp - From a file to any stage ------------------------------===//

#include "tpc/Driver/Compile.h"
#include "OutputFile.h"

#include "tpc/Analysis/Passes.h"
#include "tpc/Analysis/Schedule.h"
#include "tpc/Driver/Register.h"
#include "tpc/Import/ONNX/Import.h"
#include "tpc/Transforms/Model/Pipeline.h"
#include "tpc/Transforms/Pipeline/Passes.h"
#include "tpc/Transforms/Sharding/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace tpc;

static constexpr llvm::StringLiteral emitNames[] = {"import", "model", "sharded", "spmd",
                                                    "staged", "llvm",  "obj",     "exe"};

llvm::StringRef tpc::emitName(Emit emit) { return emitNames[unsigned(emit)]; }

static Emit next(Emit stage) { return Emit(unsigned(stage) + 1); }

namespace {
/// What the program of a stage must pass.
struct Verifier {
  llvm::StringLiteral flag, step;
  Emit stage;
  /// `last`: nothing after this stage is verified.
  std::unique_ptr<mlir::Pass> (*create)(const std::shared_ptr<mlir::tpc::ReferenceModel> &,
                                        bool last);
};
} // namespace

static constexpr Verifier verifiers[] = {
    {"tpc-verify-equivalence", "verifying that one rank's program is the model", Emit::Spmd,
     [](auto &reference, bool last) {
       // Where the stages are compared with the model as well, they are what is run on paper.
       return mlir::tpc::createVerifyEquivalence(reference, {true, /*interpret=*/last});
     }},
    {"tpc-verify-bounds", "verifying bounds", Emit::Staged,
     [](auto &, bool) { return mlir::tpc::createVerifyBounds(); }},
    {"tpc-verify-equivalence", "verifying that the stages are the model", Emit::Staged,
     [](auto &reference, bool) { return mlir::tpc::createVerifyEquivalence(reference); }},
    {"tpc-verify-comms", "verifying communication", Emit::Staged,
     [](auto &, bool) { return mlir::tpc::createVerifyComms(); }},
};

std::string tpc::verifierNames() {
  llvm::SetVector<llvm::StringRef> names;
  for (const Verifier &verifier : verifiers)
    names.insert(verifier.flag);
  return llvm::join(names, ", ");
}

/// Without the verifiers of the stage.
static void buildStage(mlir::OpPassManager &pm, Emit stage, const ShardSpec &spec,
                       const std::shared_ptr<mlir::tpc::ReferenceModel> &reference) {
  switch (stage) {
  case Emit::Model:
    if (reference) // before anything is folded
      pm.addPass(mlir::tpc::createVerifyBounds());
    mlir::tpc::buildModelPipeline(pm);
    if (reference)
      pm.addPass(mlir::tpc::createRecordReference(reference));
    return;
  case Emit::Sharded:
    mlir::tpc::buildRewritePipeline(pm, spec);
    return mlir::tpc::buildShardingPipeline(pm, spec);
  case Emit::Spmd:
    return mlir::tpc::buildSpmdPipeline(pm, spec);
  case Emit::Staged:
    mlir::tpc::buildPipelinePipeline(pm, spec);
    pm.addPass(mlir::tpc::createCheckLinks());
    pm.addPass(mlir::tpc::createRecordSchedule());
    return;
  default:
    llvm_unreachable("no passes on programs lead to this stage");
  }
}

void tpc::buildStagePipeline(mlir::OpPassManager &pm, Emit stage, const ShardSpec &spec,
                             std::shared_ptr<mlir::tpc::ReferenceModel> reference, bool last) {
  buildStage(pm, stage, spec, reference);
  if (reference)
    for (const Verifier &verifier : verifiers)
      if (verifier.stage == stage)
        pm.addPass(verifier.create(reference, last));
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
        mlir::tpc::ApplyAnnotationsOptions annotations;
        annotations.shard = spec->str();
        pm.addPass(mlir::tpc::createApplyAnnotations(annotations));
        auto reference = std::make_shared<mlir::tpc::ReferenceModel>();
        for (Emit stage = Emit::Model; stage <= Emit::Staged; stage = next(stage))
          buildStagePipeline(pm, stage, *spec, reference, /*last=*/stage == Emit::Staged);
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}

Compilation::Compilation(mlir::MLIRContext &context, CompileOptions options)
    : context(context), options(std::move(options)) {
  if (this->options.verify)
    reference = std::make_shared<mlir::tpc::ReferenceModel>();
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
}

mlir::LogicalResult Compilation::annotate() {
  mlir::tpc::ApplyAnnotationsOptions annotations;
  annotations.file = options.annotations;
  annotations.shard = options.spec.str();
  annotations.configuration = options.deviceConfiguration;
  mlir::PassManager pm(&context);
  pm.addPass(mlir::tpc::createApplyAnnotations(annotations));
  if (mlir::failed(pm.run(*module)))
    return mlir::failure();
  return options.onAnnotated ? options.onAnnotated(*module) : mlir::success();
}

mlir::LogicalResult Compilation::advance(Emit stage, OnStep onStep) {
  assert(stage <= Emit::Llvm && "later stages are no modules");
  if (!module) {
    onStep("reading " + options.input);
    module = importOnnxModel(options.input, &context, {.weights = options.weights});
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
    if (target == Emit::Model && mlir::failed(annotate()))
      return mlir::failure();
    if (target == Emit::Llvm)
      mlir::tpc::buildLoweringPipeline(pm, options.lowering);
    else
      buildStage(pm, target, options.spec, reference);
    if (mlir::failed(pm.run(*module)))
      return mlir::failure();
    // Steps of their own, so that --timing tells what they take.
    for (const Verifier &verifier : verifiers) {
      if (!reference || verifier.stage != target)
        continue;
      onStep(verifier.step);
      mlir::PassManager verify(&context);
      verify.addPass(verifier.create(reference, target == stage));
      if (mlir::failed(verify.run(*module)))
        return mlir::failure();
    }
    if (target == Emit::Staged && !reference)
      module->getOperation()->setAttr(mlir::tpc::kNotVerifiedAttr,
                                      mlir::StringAttr::get(&context, verifierNames()));
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
  return mlir::tpc::linkExecutable(*object, resolveOutput(path), {});
}
