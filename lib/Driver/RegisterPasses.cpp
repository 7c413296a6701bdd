//===- RegisterPasses.cpp - Registration of passes ------------------------===//
//
// A file of its own: tpc-mutate and its library are only linked into tools that call this function.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"
#include "tpc/Analysis/Passes.h"
#include "tpc/Conversion/Cpu/Passes.h"
#include "tpc/Conversion/Cuda/Passes.h"
#include "tpc/Conversion/Device/Passes.h"
#include "tpc/Conversion/Kernels/Passes.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Driver/Passes.h"
#include "tpc/Driver/Register.h"
#include "tpc/Transforms/Annotations/Passes.h"
#include "tpc/Transforms/Backward/Passes.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Generate/Passes.h"
#include "tpc/Transforms/Model/Passes.h"
#include "tpc/Transforms/Stages/Passes.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Transforms/Train/Passes.h"
#include "tpc/Verify/Passes.h"

#include "mlir/Transforms/Passes.h"

void tpc::registerAllPasses() {
  mlir::registerTransformsPasses();
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
