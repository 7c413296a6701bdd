//===- Compile.cpp - Compilation of a file to any level -------------------===//

#include "Compile.h"
#include "OutputFile.h"
#include "ReadProgram.h"

#include "tpc/Analysis/Passes.h"
#include "tpc/Dialect/State.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Driver/Register.h"
#include "tpc/Transforms/Annotations/Passes.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Generate/Passes.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Transforms/Train/Passes.h"
#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace tpc;

static constexpr llvm::StringLiteral emitNames[] = {"import", "model",   "sharded", "spmd",
                                                    "staged", "kernels", "buffers", "llvm",
                                                    "obj",    "lib",     "exe"};

llvm::StringRef tpc::emitName(Emit emit) { return emitNames[unsigned(emit)]; }

static Emit next(Emit level) { return Emit(unsigned(level) + 1); }

namespace {
/// A verifier that runs on programs of a level.
struct Verifier {
  llvm::StringLiteral flag, step;
  Emit level;
  bool comparesModels;
  /// `last`: whether this is the last level that is verified.
  std::unique_ptr<mlir::Pass> (*create)(const std::shared_ptr<mlir::tpc::ReferenceModel> &,
                                        bool last);
};
} // namespace

static constexpr Verifier verifiers[] = {
    {"tpc-verify-equivalence", "verifying that one rank's program computes the model", Emit::Spmd,
     true,
     [](auto &reference, bool last) {
       // Interprets the spmd program only if no staged program is verified later.
       return mlir::tpc::createVerifyEquivalence(reference, {true, /*interpret=*/last});
     }},
    {"tpc-verify-bounds", "verifying bounds", Emit::Staged, false,
     [](auto &, bool) { return mlir::tpc::createVerifyBounds(); }},
    {"tpc-verify-equivalence", "verifying that the stages compute the model", Emit::Staged, true,
     [](auto &reference, bool) { return mlir::tpc::createVerifyEquivalence(reference); }},
    {"tpc-verify-comms", "verifying communication", Emit::Staged, false,
     [](auto &, bool) { return mlir::tpc::createVerifyComms(); }},
    {"tpc-verify-facts", "verifying facts", Emit::Staged, false,
     [](auto &reference, bool) { return mlir::tpc::createVerifyFacts(reference); }},
    {"tpc-verify-facts", "verifying facts", Emit::Kernels, false,
     [](auto &reference, bool) { return mlir::tpc::createVerifyFacts(reference); }},
    {"tpc-verify-buffers", "verifying buffers", Emit::Buffers, false,
     [](auto &, bool) { return mlir::tpc::createVerifyBuffers(); }},
    {"tpc-verify-facts", "verifying facts", Emit::Buffers, false,
     [](auto &reference, bool) { return mlir::tpc::createVerifyFacts(reference); }},
    {"tpc-verify-lowered", "running kernels and buffers at small sizes", Emit::Buffers, true,
     [](auto &reference, bool) { return mlir::tpc::createVerifyLowered(reference); }},
};

std::string tpc::verifierNames() {
  llvm::SetVector<llvm::StringRef> names;
  for (const Verifier &verifier : verifiers)
    names.insert(verifier.flag);
  return llvm::join(names, ", ");
}

/// Adds the checks of a staged program, and the pass that records its schedule.
static void buildStagedChecks(mlir::OpPassManager &pm) {
  pm.addPass(mlir::tpc::createCheckLinks({/*view=*/"tp"}));
  pm.addPass(mlir::tpc::createRecordSchedule());
}

/// Adds the passes of a level without its verifiers.
static void buildLevel(mlir::OpPassManager &pm, Emit level, const ShardSpec &spec,
                       const std::shared_ptr<mlir::tpc::ReferenceModel> &reference,
                       bool wideResidual = true, int64_t overlapChunks = 1,
                       const std::string &expertCapacity = "",
                       const ExpertDispatch &expertDispatch = {}) {
  switch (level) {
  case Emit::Model:
    if (reference) // before folding
      pm.addPass(mlir::tpc::createVerifyBounds());
    buildModelPassPipeline(pm, wideResidual, expertCapacity);
    if (reference && !reference->module)
      pm.addPass(mlir::tpc::createRecordReference(reference));
    return;
  case Emit::Sharded:
    buildRewritePassPipeline(pm, spec);
    return buildShardingPassPipeline(pm, spec);
  case Emit::Spmd:
    return buildSpmdPassPipeline(pm, spec, expertDispatch);
  case Emit::Staged:
    buildStagesPassPipeline(pm);
    if (overlapChunks != 1) {
      mlir::tpc::OverlapCollectivesOptions overlap;
      overlap.chunks = overlapChunks;
      pm.addPass(mlir::tpc::createOverlapCollectives(overlap));
    }
    return buildStagedChecks(pm);
  case Emit::Kernels:
    if (reference)
      pm.addPass(mlir::tpc::createRecordStaged(reference));
    return buildKernelsPassPipeline(pm);
  case Emit::Buffers:
    return buildBuffersPassPipeline(pm);
  default:
    llvm_unreachable("no passes on programs lead to this level");
  }
}

/// Adds the passes from an imported program to a model with loss and gradients, or to a training
/// step.
static void buildGradientLevel(mlir::OpPassManager &pm, const CompileOptions &options,
                               const std::shared_ptr<mlir::tpc::ReferenceModel> &reference) {
  if (reference) // before folding
    pm.addPass(mlir::tpc::createVerifyBounds());
  buildGradientPassPipeline(pm, options.gradient);
  if (reference)
    pm.addPass(mlir::tpc::createVerifyGradients());
  if (!options.optimizer.empty()) {
    mlir::tpc::AddOptimizerOptions optimizer{options.optimizer, options.noDecay};
    pm.addPass(mlir::tpc::createAddOptimizer(optimizer));
    pm.addNestedPass<mlir::func::FuncOp>(mlir::createCSEPass());
  }
  if (reference)
    pm.addPass(mlir::tpc::createRecordReference(reference));
}

void tpc::buildLevelPassPipeline(mlir::OpPassManager &pm, Emit level, const ShardSpec &spec,
                                 std::shared_ptr<mlir::tpc::ReferenceModel> reference, bool last) {
  buildLevel(pm, level, spec, reference);
  if (reference)
    for (const Verifier &verifier : verifiers)
      if (verifier.level == level)
        pm.addPass(verifier.create(reference, last));
}

void tpc::registerMegatronShardPassPipeline() {
  // The option text is "tp8,pp4" itself, not MLIR's name=value.
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
        annotations.shard = *spec;
        pm.addPass(mlir::tpc::createApplyAnnotations(annotations));
        auto reference = std::make_shared<mlir::tpc::ReferenceModel>();
        for (Emit level = Emit::Model; level <= Emit::Staged; level = next(level))
          buildLevelPassPipeline(pm, level, *spec, reference, /*last=*/level == Emit::Staged);
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
  annotations.shard = options.spec;
  annotations.configuration = options.deviceConfiguration;
  mlir::PassManager pm(&context);
  pm.addPass(mlir::tpc::createApplyAnnotations(annotations));
  if (mlir::failed(pm.run(*module)))
    return mlir::failure();
  return options.onAnnotated ? options.onAnnotated(*module) : mlir::success();
}

mlir::LogicalResult Compilation::quantize(mlir::ModuleOp model, OnStep onStep) {
  if (options.quantize.empty())
    return mlir::success();
  onStep("quantizing weights");
  bool isReference = !module || model != *module;
  auto report = std::make_shared<mlir::tpc::QuantizationReport>();
  mlir::PassManager pm(&context);
  mlir::tpc::QuantizeWeightsOptions pass{options.quantize, options.packedWeights,
                                         options.writesWeights && !isReference};
  pm.addPass(mlir::tpc::createQuantizeWeights(pass, report));
  if (!isReference)
    quantization = report;
  return pm.run(model);
}

/// Sets the grid from a program that is already sharded. --megatron-shard may repeat the grid and
/// add options such as allow-reshard.
mlir::LogicalResult Compilation::useGridOfProgram() {
  auto grid = mlir::tpc::MeshAttr::lookup(*module);
  mlir::Location loc = module->getLoc();
  std::optional<ShardSpec> spec = getSpec(grid);
  if (!spec)
    return mlir::emitError(loc) << mlir::tpc::kMeshAttr << " " << grid
                                << " cannot be expressed by --megatron-shard";
  if (options.specGiven && mlir::tpc::makeMeshAttr(&context, options.spec) != grid)
    return mlir::emitError(loc)
           << "--megatron-shard=" << options.spec.str()
           << " differs from the grid of the program, which is already split for " << spec->str()
           << "; leave the flag out";
  spec->allowReshard = options.spec.allowReshard;
  options.spec = *spec;
  return mlir::success();
}

OnnxImportOptions Compilation::makeImportOptions() const {
  return {.weights = options.weights,
          .weightsMap = options.weightsMap,
          .inputs = options.inputs,
          .forGeneration = options.generate != Generate::No};
}

/// Reads the reference model of the proof, if it is not the input.
mlir::LogicalResult Compilation::readReference(OnStep onStep) {
  onStep("reading " + options.reference);
  mlir::OwningOpRef<mlir::ModuleOp> model;
  Emit level = Emit::Import;
  model = isProgramText(options.reference)
              ? readProgram(options.reference, &context, level)
              : importOnnxParts(options.reference, &context, makeImportOptions(), options.parts);
  if (!model)
    return mlir::failure();
  if (level != Emit::Import)
    return mlir::emitError(model->getLoc())
           << "--reference: the file is at level " << emitName(level)
           << ", but must be a model: an ONNX file, or the output of --emit=model";
  if (mlir::failed(quantize(*model, onStep)))
    return mlir::failure();
  std::optional<mlir::tpc::PreallocatedStep> step = mlir::tpc::PreallocatedStep::lookup(*module);
  bool isStep = mlir::tpc::PreallocatedStep::lookup(*model).has_value();
  if (!step && isStep)
    return mlir::emitError(model->getLoc())
           << "--reference: the file is a generation step, but '" << options.input
           << "' is not; name the model, or the output of --emit=model without --generate";
  if (step && !isStep) {
    if (!llvm::hasSingleElement(model->getOps<mlir::func::FuncOp>()))
      return mlir::emitError(model->getLoc())
             << "--reference: the file has layers as functions, but caches are derived before "
                "layers are outlined; name the ONNX file, or the output of --emit=import or "
                "--generate --emit=model";
    if (mlir::failed(makeStep(*model, step->last, onStep)))
      return mlir::failure();
    reference->module = std::move(model);
    return mlir::success();
  }
  mlir::PassManager pm(&context);
  buildLevel(pm, Emit::Model, options.spec, reference, options.wideResidual);
  if (mlir::failed(pm.run(*model)))
    return mlir::failure();
  reference->module = std::move(model);
  return mlir::success();
}

mlir::LogicalResult Compilation::read(OnStep onStep) {
  onStep("reading " + options.input);
  module = isProgramText(options.input)
               ? readProgram(options.input, &context, first)
               : importOnnxParts(options.input, &context, makeImportOptions(), options.parts);
  if (!module || (first > Emit::Model && mlir::failed(useGridOfProgram())))
    return mlir::failure();
  if (reference && !options.reference.empty() && mlir::failed(readReference(onStep)))
    return mlir::failure();
  if (first > Emit::Model && reference && !reference->module)
    mlir::emitWarning(module->getLoc())
        << "is at level " << emitName(first)
        << ", and it is not proved that it computes a model: name the model with --reference; the "
           "executable reports this";
  else if (isProgramText(options.input) && reference && !stepIsProved &&
           mlir::tpc::PreallocatedStep::lookup(*module))
    mlir::emitWarning(module->getLoc())
        << "is a generation step, and it is not proved that its steps compute a model: name the "
           "model with --reference; the executable reports this";
  if (!options.target.empty())
    module->getOperation()->setAttr(mlir::tpc::kTargetAttr,
                                    mlir::StringAttr::get(&context, options.target));
  reached = first;
  return mlir::tpc::TargetTraits::verify(*module);
}

mlir::LogicalResult Compilation::verify(Emit level, bool last, OnStep onStep) {
  for (const Verifier &verifier : verifiers) {
    if (!reference || verifier.level != level)
      continue;
    // Each verifier is a separate step, so that --timing reports its time.
    onStep(verifier.step);
    // Later levels are also compared with the staged program.
    if (verifier.comparesModels && !reference->module && level <= Emit::Staged) {
      if (mlir::failed(mlir::tpc::verifyDistribution(*module)))
        return mlir::failure();
      continue;
    }
    mlir::PassManager pm(&context);
    pm.addPass(verifier.create(reference, last));
    if (mlir::failed(pm.run(*module)))
      return mlir::failure();
  }
  bool isStep = first <= Emit::Staged && isProgramText(options.input) &&
                mlir::tpc::PreallocatedStep::lookup(*module);
  std::string unproved;
  if (reference && !reference->module)
    unproved = "tpc-verify-equivalence";
  if (isStep && !stepIsProved)
    unproved += (unproved.empty() ? "" : ", ") + std::string("tpc-verify-generation");
  std::string skipped =
      !reference ? verifierNames()
      : unproved.empty()
          ? ""
          : unproved + " (it was compiled from text, without --reference" +
                (reference->module && !options.reference.empty() ? " to a model" : "") + ")";
  if (level == Emit::Staged && !skipped.empty())
    module->getOperation()->setAttr(mlir::tpc::kNotVerifiedAttr,
                                    mlir::StringAttr::get(&context, skipped));
  return mlir::success();
}

mlir::LogicalResult Compilation::advance(Emit level, OnStep onStep) {
  assert(level <= Emit::Llvm && "levels after llvm are not modules");
  if (!module) {
    if (mlir::failed(read(onStep)))
      return mlir::failure();
    // The input may be edited text, so its sizes are checked first, as after import.
    mlir::PassManager pm(&context);
    if (reference && (first == Emit::Sharded || first == Emit::Spmd))
      pm.addPass(mlir::tpc::createVerifyBounds());
    if (first == Emit::Staged)
      buildStagedChecks(pm);
    if (mlir::failed(pm.run(*module)) || mlir::failed(verify(first, first >= level, onStep)))
      return mlir::failure();
  }
  while (reached < level) {
    constexpr llvm::StringLiteral stepNames[] = {"",
                                                 "recognizing the model",
                                                 "distributing",
                                                 "making one rank's program",
                                                 "cutting into stages",
                                                 "building kernels",
                                                 "planning memory",
                                                 "lowering"};
    Emit target = next(reached);
    onStep(stepNames[unsigned(target)]);
    mlir::PassManager pm(&context);
    if (target == Emit::Model && mlir::failed(annotate()))
      return mlir::failure();
    if (target == Emit::Model && mlir::failed(quantize(*module, onStep)))
      return mlir::failure();
    if (target == Emit::Llvm && mlir::failed(embedKernels(onStep)))
      return mlir::failure();
    bool makesStep =
        target == Emit::Model && options.generate != Generate::No && first == Emit::Import;
    if (makesStep) {
      if (mlir::failed(makeStep(*module, options.generate == Generate::Last, onStep)))
        return mlir::failure();
      if (reference && !reference->module)
        pm.addPass(mlir::tpc::createRecordReference(reference));
    }
    if (target == Emit::Llvm)
      buildLoweringPassPipeline(pm, options.lowering);
    else if (target == Emit::Model && options.gradients)
      buildGradientLevel(pm, options, reference);
    else if (!makesStep)
      buildLevel(pm, target, options.spec, reference, options.wideResidual, options.overlapChunks,
                 options.expertCapacity, options.expertDispatch);
    if (mlir::failed(pm.run(*module)) || mlir::failed(verify(target, target == level, onStep)))
      return mlir::failure();
    reached = target;
  }
  return mlir::success();
}

static mlir::Type getMainType(mlir::ModuleOp module) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  return main ? main.getFunctionType() : mlir::Type();
}

mlir::LogicalResult Compilation::makeStep(mlir::ModuleOp module, bool last, OnStep onStep) {
  auto run = [&](mlir::ModuleOp on, llvm::function_ref<void(mlir::PassManager &)> build) {
    mlir::PassManager pm(&context);
    build(pm);
    return pm.run(on);
  };
  if (reference && mlir::failed(run(module, [](mlir::PassManager &pm) { // before folding
        pm.addPass(mlir::tpc::createVerifyBounds());
      })))
    return mlir::failure();
  mlir::OwningOpRef<mlir::ModuleOp> file;
  if (reference)
    file = module.clone();
  if (mlir::failed(
          run(module, [](mlir::PassManager &pm) { pm.addPass(mlir::tpc::createExtendLogits()); })))
    return mlir::failure();
  if (reference && getMainType(*file) != getMainType(module) &&
      mlir::failed(mlir::tpc::verifyExtendedLogits(*file, module)))
    return mlir::failure();
  mlir::OwningOpRef<mlir::ModuleOp> model;
  if (reference) {
    model = module.clone();
    // Replaces masks and positions by their defaults in the model as well, so that ALiBi from a sum
    // of masks is recognized as slopes in both programs. Errors of the model are ignored here,
    // because they are reported again for the step, with a remedy.
    if (mlir::failed(run(*model, [](mlir::PassManager &pm) {
          pm.addPass(mlir::tpc::createFixInputs());
          buildModelPassPipeline(pm, /*wideResidual=*/false);
        })))
      return mlir::failure();
  }
  onStep("finding caches");
  if (mlir::failed(run(module, [](mlir::PassManager &pm) {
        buildStepPassPipeline(pm);
        pm.addPass(mlir::tpc::createCheckTokens());
      })))
    return mlir::failure();
  mlir::OwningOpRef<mlir::ModuleOp> step;
  if (reference) {
    onStep("verifying that steps repeat the model");
    if (mlir::failed(mlir::tpc::verifyGeneration(*model, module)))
      return mlir::failure();
    step = module.clone();
  }
  onStep("preallocating caches");
  if (mlir::failed(run(module, [&](mlir::PassManager &pm) {
        buildPreallocatedStepPassPipeline(pm, last, options.wideResidual);
      })))
    return mlir::failure();
  if (!reference)
    return mlir::success();
  onStep("verifying steps on preallocated caches");
  if (mlir::failed(mlir::tpc::verifyGeneration(*step, module)))
    return mlir::failure();
  stepIsProved = true;
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

llvm::Expected<const mlir::tpc::KernelCode *> Compilation::makeKernels(OnStep onStep) {
  const mlir::tpc::TargetTraits &target = mlir::tpc::TargetTraits::get(*module);
  if (!target.emitKernels)
    return nullptr;
  if (!kernels) {
    mlir::tpc::KernelCodeOptions code{options.architectures, options.lowering.optLevel,
                                      options.tf32, onStep};
    llvm::Expected<mlir::tpc::KernelCode> made = target.emitKernels(*module, code);
    if (!made)
      return made.takeError();
    kernels = std::move(*made);
  }
  return &*kernels;
}

/// Embeds device kernels into the host program.
mlir::LogicalResult Compilation::embedKernels(OnStep onStep) {
  llvm::Expected<const mlir::tpc::KernelCode *> made = makeKernels(onStep);
  if (!made)
    return mlir::emitError(module->getLoc()) << llvm::toString(made.takeError());
  return *made ? (*made)->embed(*module) : mlir::success();
}

llvm::Error Compilation::link(llvm::StringRef path, mlir::tpc::Linked kind, OnStep onStep) {
  llvm::Expected<llvm::SmallVector<char>> object = makeObject(onStep);
  if (!object)
    return object.takeError();
  onStep("linking");
  return mlir::tpc::link(*object, resolveOutput(path), kind, {});
}
