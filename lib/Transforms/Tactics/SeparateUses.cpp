//===- SeparateUses.cpp - One copy of weights and constants per use -------===//
//
// All uses of a value have the same classes, and therefore the same distribution. Exporters store
// equal tensors only once: in an untrained model, for example, one zero vector is the bias of the
// head projections, which are split, and of the residual projections, which are not. Parameters and
// constants are therefore cloned for each use. Clones cost nothing, because a rank loads only the
// shards that its ops use, and shards that several ops use only once. Weights that a training step
// updates are not cloned: a rank has one copy of their elements, which all uses read.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Dialect/State.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns the uses in order of creation; the use list has the reverse order.
static SmallVector<OpOperand *> getUses(Value value) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    uses.push_back(&use);
  std::reverse(uses.begin(), uses.end());
  return uses;
}

namespace {
/// Weights that results of @main replace.
class UpdatedWeights {
public:
  explicit UpdatedWeights(ModuleOp module) {
    if (auto main = module.lookupSymbol<func::FuncOp>("main"))
      for (unsigned i = 0; i < main.getNumResults(); ++i)
        if (auto update =
                Update::get(DictionaryAttr::get(module.getContext(), main.getResultAttrs(i))))
          names.insert(update->weight.getValue());
  }
  bool contains(Operation *op) const {
    auto parameter = dyn_cast<ParameterOp>(op);
    return parameter && names.contains(parameter.getWeight());
  }

private:
  llvm::StringSet<> names;
};

/// Function arguments that receive weights, as in layers.
class ParameterArguments {
public:
  ParameterArguments(ModuleOp module, const UpdatedWeights &updated)
      : module(module), updated(updated), symbols(module) {
    module.walk([&](func::CallOp call) {
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
        calls[callee].push_back(call);
    });
  }

  /// Adds an argument for each use. Visits callees before callers, because new arguments of callees
  /// are new uses in callers.
  void separate() {
    for (auto function : module.getOps<func::FuncOp>())
      separate(function);
  }

private:
  bool isParameter(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return isa<ParameterOp>(value.getDefiningOp()) && !updated.contains(value.getDefiningOp());
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
  const UpdatedWeights &updated;
  SymbolTable symbols;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  DenseSet<Operation *> done;
};
} // namespace

void mlir::tpc::separateUses(ModuleOp module) {
  UpdatedWeights updated(module);
  ParameterArguments(module, updated).separate();
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    // Ops without operands can be copied at no cost.
    if (isa<ShardingRuleOpInterface>(op) && op->getNumOperands() == 0 && !updated.contains(op))
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
