//===- Register.cpp - Registration of dialects, passes and targets --------===//

#include "tpc/Driver/Register.h"
#include "Compile.h"
#include "tpc/Analysis/Cost.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Analysis/Passes.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Cpu/Passes.h"
#include "tpc/Conversion/Cpu/Target.h"
#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Cuda/Passes.h"
#include "tpc/Conversion/Device/Passes.h"
#include "tpc/Conversion/Kernels/Passes.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Driver/Passes.h"
#include "tpc/Import/ONNX/Import.h"
#include "tpc/Kernel/Kernel.h"
#include "tpc/Transforms/Annotations/Passes.h"
#include "tpc/Transforms/Backward/Passes.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Generate/Passes.h"
#include "tpc/Transforms/Model/Passes.h"
#include "tpc/Transforms/Stages/Passes.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Transforms/Train/Passes.h"
#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Verify.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

void tpc::registerTargets() {
  mlir::tpc::registerCpuTarget();
  mlir::tpc::cuda::registerCudaTarget();
}

void tpc::registerAllDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::tpc::TpcDialect, mlir::tpc::kernel::TpcKernelDialect,
                  mlir::tpc::buffer::BufferDialect>();
  mlir::tpc::registerIndexModels(registry);
  mlir::tpc::registerCostModels(registry);
  mlir::tpc::registerGradientModels(registry);
  mlir::tpc::registerVerification(registry);
  mlir::tpc::registerGenerationVerification(registry);
  mlir::tpc::registerBufferVerification(registry);
  mlir::tpc::registerLoweredInterpreter(registry);
  registerTargets();
  mlir::tpc::registerLowering(registry);
}

void tpc::registerAllPasses() {
  mlir::registerAllPasses();
  mlir::tpc::registerAnalysisPasses();
  mlir::tpc::registerModelPasses();
  mlir::tpc::registerGeneratePasses();
  mlir::tpc::registerBackwardPasses();
  mlir::tpc::registerTrainPasses();
  mlir::tpc::registerAnnotationsPasses();
  mlir::tpc::registerTacticsPasses();
  mlir::tpc::registerCollectivesPasses();
  mlir::tpc::registerStagesPasses();
  mlir::tpc::registerVerifyPasses();
  mlir::tpc::registerConversionPasses();
  mlir::tpc::registerKernelsPasses();
  mlir::tpc::registerDevicePasses();
  mlir::tpc::registerCpuPasses();
  mlir::tpc::registerCudaPasses();
  mlir::tpc::registerDriverPasses();
  registerPassPipelines();
  registerMegatronShardPassPipeline();
}

void tpc::registerAllTranslations() { registerOnnxTranslation(); }
