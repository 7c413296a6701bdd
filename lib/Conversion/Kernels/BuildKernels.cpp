//===- BuildKernels.cpp - Pass that builds kernel IR ----------------------===//

#include "KernelModels.h"
#include "tpc/Conversion/Kernels/Passes.h"
#include "tpc/Dialect/State.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_BUILDKERNELS
#include "tpc/Conversion/Kernels/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

void mlir::tpc::registerKernelModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    attachElementwiseModels(context);
    attachMovementModels(context);
    attachLookupModels(context);
    attachRowModels(context);
  });
}

namespace {
struct BuildKernels : mlir::tpc::impl::BuildKernelsBase<BuildKernels> {
  void runOnOperation() override;
};
} // namespace

static LogicalResult check(func::FuncOp source, Operation &op) {
  auto inner = dyn_cast<KernelOpInterface>(op);
  if (!inner || !inner.isKernelOp())
    return op.emitOpError() << "is in the kernel @" << source.getName()
                            << ", but kernels do not support the op";
  Value aliased = inner.getAliasedOperand();
  bool isResult = llvm::all_of(
      op.getUsers(), [](Operation *user) { return user->hasTrait<OpTrait::ReturnLike>(); });
  if (aliased &&
      (!isa<BlockArgument>(aliased) || !aliased.hasOneUse() || !op.hasOneUse() || !isResult))
    return op.emitOpError()
           << "writes into memory that the kernel @" << source.getName()
           << " computes or uses elsewhere: the memory must be an argument without "
              "other uses, and become a result";
  return success();
}

using Overwrites = SmallVector<std::pair<unsigned, BlockArgument>>;

/// Finds the results of kernels that update a parameter from the parameter's own elements. Such a
/// result may have the parameter's memory.
static DenseMap<Operation *, Overwrites> findOverwrites(ModuleOp module) {
  DenseMap<Operation *, Overwrites> found;
  auto add = [&](OutputOp output, const Update &update) {
    auto call = output.getValue().getDefiningOp<func::CallOp>();
    auto kernel = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (!kernel || !kernel->hasAttr(kKernelAttr))
      return;
    unsigned result = cast<OpResult>(output.getValue()).getResultNumber();
    Value stored = kernel.front().getTerminator()->getOperand(result);
    Overwrites &overwrites = found[kernel];
    for (OpOperand &operand : call->getOpOperands()) {
      auto parameter = operand.get().getDefiningOp<ParameterOp>();
      BlockArgument argument = kernel.getArgument(operand.getOperandNumber());
      auto isTaken = [&](const auto &other) {
        return other.first == result || other.second == argument;
      };
      if (parameter && parameter.getWeightAttr() == update.weight &&
          parameter.getViewAttr() == update.view && argument.getType() == stored.getType() &&
          stored.getDefiningOp() && !getAliasedOperand(stored) &&
          !kernel.getArgAttr(argument.getArgNumber(), kRowStrideAttr) &&
          llvm::none_of(overwrites, isTaken))
        overwrites.push_back({result, argument});
    }
  };
  module.walk([&](OutputOp output) {
    auto pipeline = output->getParentOfType<PipelineOp>();
    auto attributes = cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]);
    if (std::optional<Update> update = Update::get(attributes))
      add(output, *update);
  });
  return found;
}

void BuildKernels::runOnOperation() {
  ModuleOp module = getOperation();
  if (ModuleOp other = kernel::getKernels(module)) {
    other.emitOpError("exists already; only this pass makes a module for kernels");
    return signalPassFailure();
  }
  SmallVector<func::FuncOp> sources;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kKernelAttr))
      sources.push_back(function);
  if (sources.empty())
    return;
  // The symbol table renames the module if a weight has the same name.
  auto kernels = ModuleOp::create(module.getLoc(), "kernels");
  SymbolTable(module).insert(kernels);
  DenseMap<Operation *, Overwrites> overwrites = findOverwrites(module);
  for (func::FuncOp source : sources) {
    for (Operation &op : source.front().without_terminator())
      if (failed(check(source, op)))
        return signalPassFailure();
    KernelBuilder(source, OpBuilder::atBlockEnd(kernels.getBody()))
        .build(overwrites.lookup(source));
  }
}
