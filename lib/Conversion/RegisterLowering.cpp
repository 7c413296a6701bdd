//===- RegisterLowering.cpp - Registration of lowering interfaces ---------===//

#include "BufferPlanner.h"
#include "HostEmitter.h"
#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Conversion/Lower.h"

#include "mlir/Target/LLVMIR/Dialect/All.h"

using namespace mlir;
using namespace mlir::tpc;

void mlir::tpc::registerLowering(DialectRegistry &registry) {
  registerKernelModels(registry);
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    context->getOrLoadDialect<func::FuncDialect>();
    attachViewModels(context);
    attachComputeModels(context);
    attachStageModels(context);
    attachCommunicationModels(context);
    attachAsyncModels(context);
  });
  registry.addExtension(
      +[](MLIRContext *context, buffer::BufferDialect *) { attachRuntimeCalls(context); });
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

SmallVector<CoverageColumn> mlir::tpc::getLoweringCoverage() {
  return {
      {"code",
       "how it is lowered: as part of a `kernel` (`KernelOpInterface`), or in place, as "
       "a `call` of the runtime or an alias of memory (`HostOpInterface`)",
       {{"kernel", TypeID::get<KernelOpInterface>()}, {"call", TypeID::get<HostOpInterface>()}}}};
}
