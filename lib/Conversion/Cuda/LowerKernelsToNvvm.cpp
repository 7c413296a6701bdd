//===- LowerKernelsToNvvm.cpp - Pass that lowers kernel IR to GPU threads -===//

#include "KernelLowering.h"
#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Cuda/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOWERKERNELSTONVVM
#include "tpc/Conversion/Cuda/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

FailureOr<std::vector<cuda::Launch>> cuda::lowerKernels(ModuleOp program) {
  // Without a pass manager, no pass has loaded the dialects.
  program.getContext()->loadDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  auto layout = EnvLayout::get(program);
  if (failed(layout))
    return failure();
  SmallVector<kernel::FuncOp> kernels;
  program.walk([&](kernel::FuncOp kernel) { kernels.push_back(kernel); });
  KernelLowering::NodeNames nodes;
  std::vector<Launch> launches;
  for (kernel::FuncOp kernel : kernels) {
    FailureOr<Launch> launch = KernelLowering(kernel, *layout, nodes).lower();
    if (failed(launch))
      return failure();
    launches.push_back(*launch);
    kernel.erase();
  }
  if (ModuleOp module = kernel::getKernels(program); module && !nodes.empty())
    module->setAttr(kernel::kNodesAttr, ArrayAttr::get(program.getContext(), nodes.getArrayRef()));
  return launches;
}

namespace {
struct LowerKernelsToNvvm : mlir::tpc::impl::LowerKernelsToNvvmBase<LowerKernelsToNvvm> {
  void runOnOperation() override {
    if (failed(cuda::lowerKernels(getOperation())))
      signalPassFailure();
  }
};
} // namespace
