//===- Localize.cpp - Conversion of types to local shapes -----------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Collectives/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOCALIZE
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

FailureOr<MeshAttr> mlir::tpc::requireGrid(ModuleOp module, StringRef passes) {
  if (MeshAttr grid = MeshAttr::lookup(module))
    return grid;
  return emitError(module.getLoc()) << "has no " << kMeshAttr << ": run " << passes << " first";
}

namespace {
struct Localize : public mlir::tpc::impl::LocalizeBase<Localize> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<MeshAttr> found = requireGrid(module);
    if (failed(found))
      return signalPassFailure();
    MeshAttr grid = *found;
    auto left = module.walk([](ReshardOp reshard) {
      reshard.emitError() << "a reshard remains: run tpc-lower-reshards first";
      return WalkResult::interrupt();
    });
    if (left.wasInterrupted())
      return signalPassFailure();

    auto localize = [&](Type type) -> Type {
      if (!isa<RankedTensorType>(type))
        return type;
      return makeTensorType(cast<RankedTensorType>(type).getElementType(),
                            getDist(type).withLocal(true), grid);
    };
    module.walk([&](Operation *op) {
      op->removeDiscardableAttr(kSplitAttr);
      for (Value result : op->getResults())
        result.setType(localize(result.getType()));
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            argument.setType(localize(argument.getType()));
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        SmallVector<Type> inputs, results;
        llvm::transform(function.getArgumentTypes(), std::back_inserter(inputs), localize);
        llvm::transform(function.getResultTypes(), std::back_inserter(results), localize);
        function.setType(FunctionType::get(&getContext(), inputs, results));
        for (unsigned i = 0; i < inputs.size(); ++i)
          function.removeArgAttr(i, StringAttr::get(&getContext(), kSplitAttr));
      }
    });
  }
};
} // namespace
