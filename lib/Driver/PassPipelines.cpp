//===- PassPipelines.cpp - Pass pipelines between levels ------------------===//

#include "tpc/Driver/PassPipelines.h"
#include "tpc/Conversion/Cpu/Passes.h"
#include "tpc/Conversion/Device/Passes.h"
#include "tpc/Conversion/Kernels/Passes.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Transforms/Annotations/Passes.h"
#include "tpc/Transforms/Backward/Passes.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Generate/Passes.h"
#include "tpc/Transforms/Model/Passes.h"
#include "tpc/Transforms/Stages/Passes.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Verify/Schedule.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::ShardSpec;

/// Form of the compiled program: the model; the model that gradients are derived from; a generation
/// step; or a step on preallocated caches, with outputs of all tokens or only of the last token.
enum class Form { Model, Gradients, Step, Preallocated, PreallocatedLast };

/// Adds the passes after raising: for steps on preallocated caches, the conversion to them; for all
/// forms, tpc-attach-annotations and tpc-outline-layers.
static void buildFinalPasses(OpPassManager &pm, Form form, bool wideResidual) {
  if (form >= Form::Preallocated) {
    pm.addPass(createPreallocateCaches());
    pm.addPass(createWindowCaches());
    pm.addPass(createCacheSources());
    if (form == Form::PreallocatedLast)
      pm.addPass(createKeepLastToken());
    pm.addNestedPass<func::FuncOp>(createSimplify());
    pm.addNestedPass<func::FuncOp>(createCSEPass());
  }
  if (wideResidual) {
    pm.addNestedPass<func::FuncOp>(createWidenResidual());
    pm.addNestedPass<func::FuncOp>(createCSEPass());
  }
  pm.addPass(createAttachAnnotations());
  pm.addPass(createOutlineLayers());
}

/// Adds the passes from import to the model, or to a step with caches, before tpc-outline-layers.
static void buildRaisingPasses(OpPassManager &pm, Form form,
                               const std::string &expertCapacity = "") {
  bool generates = form >= Form::Step;
  pm.addPass(createMaterializeAnnotations());
  if (generates)
    pm.addPass(createExtendLogits());
  if (form != Form::Model) {
    pm.addPass(createKeepLogits());
    pm.addPass(createFixInputs());
  }
  OpPassManager &fn = pm.nest<func::FuncOp>();
  fn.addPass(createSimplify());
  fn.addPass(createCSEPass());

  fn.addPass(createRaiseNorms());
  fn.addPass(createRaiseActivations());
  fn.addPass(createSplitFusedProjections());
  fn.addPass(createRaiseAttention());
  // Runs after attention is recognized: rotary embeddings swap halves, which would become a roll.
  fn.addPass(createRaiseRolls());

  fn.addPass(createNormalizeTokens());
  fn.addPass(createCSEPass());
  fn.addPass(createRaiseExperts());
  pm.addPass(createStackWeights());
  OpPassManager &raised = pm.nest<func::FuncOp>();
  if (!expertCapacity.empty()) {
    LimitExpertsOptions limit;
    limit.capacity = expertCapacity;
    raised.addPass(createLimitExperts(limit));
  }
  raised.addPass(createSimplify()); // slices of experts' weights become views
  raised.addPass(createCSEPass());
  raised.addPass(createReportUnraised());
  raised.addPass(createDivideSoftmax());

  if (generates) {
    pm.addPass(createRecognizeCaches());
    pm.addPass(createDeriveCaches());
    pm.addNestedPass<func::FuncOp>(createSimplify()); // movements become adjacent
    pm.addNestedPass<func::FuncOp>(createCSEPass());
  }
}

static void buildModelPasses(OpPassManager &pm, Form form, bool wideResidual,
                             const std::string &expertCapacity = "") {
  buildRaisingPasses(pm, form, expertCapacity);
  buildFinalPasses(pm, form, wideResidual);
}

void ::tpc::buildModelPassPipeline(OpPassManager &pm, bool wideResidual,
                                   const std::string &expertCapacity) {
  buildModelPasses(pm, Form::Model, wideResidual, expertCapacity);
}

void ::tpc::buildGradientPassPipeline(OpPassManager &pm, const GradientOptions &options) {
  buildModelPasses(pm, Form::Gradients, /*wideResidual=*/false);
  if (options.matmuls != "f32") {
    CastMatmulsOptions cast;
    cast.type = options.matmuls;
    pm.addNestedPass<func::FuncOp>(createCastMatmuls(cast));
    pm.addNestedPass<func::FuncOp>(createCSEPass());
  }
  DeriveBackwardOptions derive;
  derive.labelSmoothing = options.labelSmoothing;
  derive.zLoss = options.zLoss;
  derive.decomposeAttention = options.decomposeAttention;
  derive.scaleLoss = options.matmuls == "f16";
  pm.addPass(createDeriveBackward(derive));
  pm.addNestedPass<func::FuncOp>(createCSEPass());
}

void ::tpc::buildStepPassPipeline(OpPassManager &pm) { buildRaisingPasses(pm, Form::Step); }

void ::tpc::buildPreallocatedStepPassPipeline(OpPassManager &pm, bool last, bool wideResidual) {
  buildFinalPasses(pm, last ? Form::PreallocatedLast : Form::Preallocated, wideResidual);
}

void ::tpc::buildRewritePassPipeline(OpPassManager &pm, const ShardSpec &spec) {
  if (spec.grid.size("tp") == 1 || spec.isTensor2D())
    return;
  RepeatKvHeadsOptions repeat;
  repeat.shard = spec;
  pm.addPass(createRepeatKvHeads(repeat));
}

void ::tpc::buildShardingPassPipeline(OpPassManager &pm, const ShardSpec &spec) {
  AssignShardingsOptions assign;
  assign.shard = spec;
  pm.addPass(createAssignShardings(assign));
  pm.addPass(createInsertReshards());
}

void ::tpc::buildSpmdPassPipeline(OpPassManager &pm, const ShardSpec &spec,
                                  const ExpertDispatch &expertDispatch) {
  LowerReshardsOptions lower;
  lower.allowReshard = spec.allowReshard;
  pm.addPass(createLowerReshards(lower));
  pm.addPass(createLocalize());
  pm.addPass(createOptimizeCollectives());
  pm.addPass(createCoalesceCollectives());
  DispatchExpertsOptions dispatch;
  dispatch.form = expertDispatch.form;
  dispatch.seconds = expertDispatch.seconds;
  pm.addPass(createDispatchExperts(dispatch));
}

void ::tpc::buildStagesPassPipeline(OpPassManager &pm) {
  pm.addPass(createSplitStages());
  pm.addPass(createSchedulePipeline());
  pm.addPass(createCSEPass());
  pm.addPass(createHoistInvariants());
}

void ::tpc::buildKernelsPassPipeline(OpPassManager &pm) {
  pm.addPass(createRecordSchedule()); // requires the staged program
  pm.addPass(createInlineUpdates());
  pm.addPass(createWidenMatmuls());
  pm.addPass(createFuseDequantize());
  pm.addPass(createFuseEpilogues());
  pm.addPass(createMergeMatmuls());
  pm.addPass(createAliasCaches());
  pm.addPass(createOutlineKernels());
  pm.addPass(createBuildKernels());
}

void ::tpc::buildBuffersPassPipeline(OpPassManager &pm) { pm.addPass(createPlanBuffers()); }

void ::tpc::buildLoweringPassPipeline(OpPassManager &pm, const LoweringOptions &options) {
  pm.addPass(createLowerKernels());
  LowerProgramOptions program;
  program.name = options.name;
  program.digestWeights = options.digestWeights;
  pm.addPass(createLowerProgram(program));
  pm.addPass(createApproximateMath());
  OpPassManager &functions = pm.nest<LLVM::LLVMFuncOp>();
  functions.addPass(createCSEPass());
  // The remaining ops of `math` (sin, cos, pow) are scalar.
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass()); // declarations of libm
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void ::tpc::registerPassPipelines() {
  static PassPipelineRegistration<> model(
      "tpc-model-pipeline", "From imported ops to the model's normal form",
      [](OpPassManager &pm) { ::tpc::buildModelPassPipeline(pm); });
  // Unlike buildStepPassPipeline, this pipeline also outlines layers.
  static PassPipelineRegistration<> step(
      "tpc-step-pipeline", "From imported ops to one step of a generation, with caches",
      [](OpPassManager &pm) { buildModelPasses(pm, Form::Step, true); });
  static PassPipelineRegistration<> gradients(
      "tpc-gradient-pipeline", "From imported ops to a model with loss and gradients",
      [](OpPassManager &pm) { ::tpc::buildGradientPassPipeline(pm); });
  static PassPipelineRegistration<> preallocated(
      "tpc-preallocated-step-pipeline", "From imported ops to one step on preallocated caches",
      [](OpPassManager &pm) { buildModelPasses(pm, Form::Preallocated, true); });
  static PassPipelineRegistration<> last(
      "tpc-last-step-pipeline",
      "From imported ops to one step on preallocated caches, with outputs of the last tokens",
      [](OpPassManager &pm) { buildModelPasses(pm, Form::PreallocatedLast, true); });
  static PassPipelineRegistration<> lowering(
      "tpc-lower-to-llvm", "Lowers a staged program to the LLVM dialect", [](OpPassManager &pm) {
        ::tpc::buildKernelsPassPipeline(pm);
        ::tpc::buildBuffersPassPipeline(pm);
        ::tpc::buildLoweringPassPipeline(pm, {});
      });
}
