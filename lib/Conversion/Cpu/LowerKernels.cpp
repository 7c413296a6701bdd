//===- LowerKernels.cpp - Pass that lowers kernel IR to CPU loops ---------===//

#include "KernelLowering.h"
#include "tpc/Conversion/Cpu/Passes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOWERKERNELS
#include "tpc/Conversion/Cpu/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct LowerKernels : mlir::tpc::impl::LowerKernelsBase<LowerKernels> {
  void runOnOperation() override {
    auto layout = EnvLayout::get(getOperation());
    if (failed(layout))
      return signalPassFailure();
    SmallVector<kernel::FuncOp> kernels;
    getOperation().walk([&](kernel::FuncOp kernel) { kernels.push_back(kernel); });
    KernelLowering::NodeNames nodes;
    for (kernel::FuncOp kernel : kernels) {
      KernelLowering(kernel, *layout, nodes).lower();
      kernel.erase();
    }
    if (ModuleOp module = kernel::getKernels(getOperation()); module && !nodes.empty())
      module->setAttr(kernel::kNodesAttr, ArrayAttr::get(&getContext(), nodes.getArrayRef()));
  }
};
} // namespace
