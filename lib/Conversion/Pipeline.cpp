//===- Pipeline.cpp - From staged programs to the LLVM dialect ------------===//

#include "HostModels.h"
#include "KernelModels.h"
#include "tpc/Verify/Schedule.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Conversion/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::tpc;

void mlir::tpc::registerLowering(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    attachElementwiseModels(context);
    attachMovementModels(context);
    attachLookupModels(context);
    attachRowModels(context);
    context->getOrLoadDialect<func::FuncDialect>();
    attachComputeModels(context);
    attachCommunicationModels(context);
  });
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

void mlir::tpc::buildLoweringPipeline(OpPassManager &pm, const LoweringOptions &options) {
  pm.addPass(createRecordSchedule()); // while the program is staged
  pm.addPass(createWidenProducts());
  pm.addPass(createFuseEpilogues());
  pm.addPass(createOutlineKernels());
  LowerProgramOptions program;
  program.name = options.name;
  program.digestWeights = options.digestWeights;
  pm.addPass(createLowerProgram(program));
  pm.addPass(createApproximateMath());
  // What is left are scalars.
  OpPassManager &functions = pm.nest<LLVM::LLVMFuncOp>();
  functions.addPass(createCSEPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass()); // declarations of libm
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void mlir::tpc::registerLoweringPipeline() {
  static PassPipelineRegistration<> registration(
      "tpc-lower-to-llvm", "Lowers a staged program to the LLVM dialect",
      [](OpPassManager &pm) { buildLoweringPipeline(pm, {}); });
}
