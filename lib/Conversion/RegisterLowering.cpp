//===- RegisterLowering.cpp - How ops are lowered --------------------------===//

#include "HostModels.h"
#include "KernelModels.h"
#include "tpc/Conversion/Lower.h"

#include "mlir/Target/LLVMIR/Dialect/All.h"

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
    attachStageModels(context);
    attachCommunicationModels(context);
  });
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}
