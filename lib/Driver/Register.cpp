//===- Register.cpp - Registration of dialects and targets ---------------===//

#include "tpc/Driver/Register.h"
#include "Compile.h"
#include "tpc/Analysis/Cost.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Cpu/Target.h"
#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Import/ONNX/Import.h"
#include "tpc/Kernel/Kernel.h"
#include "tpc/Transforms/Backward/Passes.h"
#include "tpc/Verify/Verify.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"

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

void tpc::registerAllTranslations() { registerOnnxTranslation(); }
