//===- Register.cpp - Everything that tpc's tools know ---------------------===//

#include "tpc/Driver/Register.h"
#include "tpc/Analysis/Passes.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Driver/Compile.h"
#include "tpc/Import/ONNX/Import.h"
#include "tpc/Transforms/Model/Passes.h"
#include "tpc/Transforms/Model/Pipeline.h"
#include "tpc/Transforms/Pipeline/Passes.h"
#include "tpc/Transforms/Sharding/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

void tpc::registerAllDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::tpc::TpcDialect>();
  mlir::tpc::registerLowering(registry);
}

void tpc::registerAllPasses() {
  mlir::registerAllPasses();
  mlir::tpc::registerAnalysisPasses();
  mlir::tpc::registerModelPasses();
  mlir::tpc::registerModelPipeline();
  mlir::tpc::registerShardingPasses();
  mlir::tpc::registerPipelinePasses();
  registerMegatronShardPipeline();
  mlir::tpc::registerConversionPasses();
  mlir::tpc::registerLoweringPipeline();
}

void tpc::registerAllTranslations() { registerOnnxTranslation(); }
