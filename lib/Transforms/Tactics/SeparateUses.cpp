//===- SeparateUses.cpp - One op for each use of a weight or constant -----===//
//
// What is there before anything is computed costs nothing to be there twice: a rank loads the part
// of a weight that a use needs, and once what several uses need alike. As one value it would have
// one distribution, and so would all that it is added to. Exporters store equal tensors once: in a
// model that was never trained one vector of zeros is the bias of the projections that make heads,
// which are split, and of those that make the residual, which is not.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

using namespace mlir;
using namespace mlir::tpc;

/// In the order in which they were made; the use list has it reversed.
static SmallVector<OpOperand *> getUses(Value value) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    uses.push_back(&use);
  std::reverse(uses.begin(), uses.end());
  return uses;
}

namespace {
/// Arguments through which functions get weights, as layers do.
class ParameterArguments {
public:
  explicit ParameterArguments(ModuleOp module) : module(module), symbols(module) {
    module.walk([&](func::CallOp call) {
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
        calls[callee].push_back(call);
    });
  }

  /// An argument for each use. Callees first: what they get in addition is used by their callers.
  void separate() {
    for (auto function : module.getOps<func::FuncOp>())
      separate(function);
  }

private:
  bool isParameter(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return isa<ParameterOp>(value.getDefiningOp());
    auto found = calls.find(argument.getOwner()->getParentOp());
    return found != calls.end() && llvm::all_of(found->second, [&](func::CallOp call) {
             return isParameter(call.getOperand(argument.getArgNumber()));
           });
  }

  void separate(func::FuncOp function) {
    if (function.isExternal() || !done.insert(function).second)
      return;
    function.walk([&](func::CallOp call) {
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
        separate(callee);
    });
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
      BlockArgument argument = function.getArgument(i);
      SmallVector<OpOperand *> uses = getUses(argument);
      if (uses.size() < 2 || !isParameter(argument))
        continue;
      for (OpOperand *use : ArrayRef(uses).drop_front()) {
        unsigned last = function.getNumArguments();
        if (failed(function.insertArgument(last, argument.getType(), {}, argument.getLoc())))
          return;
        use->set(function.getArgument(last));
        for (func::CallOp call : calls[function])
          call.getOperandsMutable().append(call.getOperand(i));
      }
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  DenseSet<Operation *> done;
};
} // namespace

void mlir::tpc::separateUses(ModuleOp module) {
  ParameterArguments(module).separate();
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    // Made of nothing: it costs nothing to have several times.
    if (isa<ShardingRuleOpInterface>(op) && op->getNumOperands() == 0)
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    SmallVector<OpOperand *> uses = getUses(op->getResult(0));
    // The first use keeps `op`.
    for (OpOperand *use : llvm::reverse(uses))
      if (use != uses.front())
        use->set(builder.clone(*op)->getResult(0));
  }
}
