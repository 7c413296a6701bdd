//===- WholeBatch.cpp - Ops that need all samples of a step ---------------===//
//
// Most ops of a transformer process each sample independently. Exceptions are lookups in a mask by
// an index of the sample, similarities between samples, and means over samples. Replicas could
// gather the samples; micro-batches cannot, because a rank has one at a time. However, inputs are
// replicated, and ops that depend only on inputs (masks, positions, indices) are cheap. Each rank
// therefore runs such ops on all samples:
//
//     %m = tpc.cast %mask           [batch, sequence]      of all samples, on every rank
//     %i = tpc.gather_nd %m, ...    [batch, sequence]      of all samples, on every rank
//     %y = tpc.add %x, %i           [batch{dp, mb}, ...]   of this rank and this micro-batch
//
// The slice between the last two ops is free. Sums over samples on which no op of a sample depends
// (losses, gradients of weights) are added up over micro-batches. If another op needs all samples
// of a value that depends on weights (through matmuls, lookups or attention) or is computed in a
// layer, the split is rejected.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Reason why an op needs all samples.
struct BatchReason {
  StringRef why;
  bool always = false;
  bool isSum = false;
};
} // namespace

static bool hasBatch(const PartitionState &state, Value value, int batch) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  for (unsigned dim = 0; type && dim < type.getRank(); ++dim)
    if (llvm::is_contained(state.problem.classes.getClasses(value, dim), batch))
      return true;
  return false;
}

static std::optional<BatchReason> getBatchReason(const PartitionState &state, Operation *op,
                                                 int batch, bool micro) {
  if (llvm::is_contained(state.problem.classes.getPreventingOps(batch), op))
    return BatchReason{"needs all of it", true};
  // Replicas can communicate instead.
  if (!micro)
    return std::nullopt;
  const ShardingRule &rule = state.problem.classes.getRule(op);
  unsigned count = 0;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    int found = llvm::count(state.problem.classes.getFactorClasses(op, factor), batch);
    count += found;
    if (state.problem.isPermuted({op, factor}, batch))
      return BatchReason{"shifts along it"};
    if (auto kind = getReduction(rule.factors[factor].kind); found && kind)
      return BatchReason{"combines samples", false, *kind == ReductionKind::Sum};
  }
  if (count > 1)
    return BatchReason{"has it in two dimensions"};
  return std::nullopt;
}

/// Returns whether a value is f32, or is used only by casts to f32.
static bool isAddedInSingle(Value v) {
  auto isSingle = [](Value value) { return getElementTypeOrSelf(value).isF32(); };
  return isSingle(v) || llvm::all_of(v.getUsers(), [&](Operation *user) {
           return isa<CastOp>(user) && isSingle(user->getResult(0));
         });
}

/// Returns whether the op's results are added in f32, and all ops that depend on them can run after
/// the last micro-batch: none of them has the batch.
static bool canAccumulate(const PartitionState &state, Operation *op, int batch) {
  if (!llvm::all_of(op->getResults(), isAddedInSingle))
    return false;
  llvm::SetVector<Value> values;
  values.insert_range(op->getResults());
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        auto function = cast<func::FuncOp>(user->getParentOp());
        state.problem.module.walk([&](func::CallOp call) {
          if (call.getCallee() == function.getName())
            values.insert(call.getResult(use.getOperandNumber()));
        });
        continue;
      }
      if (!isa<ShardingRuleOpInterface>(user) ||
          llvm::any_of(user->getOperands(), [&](Value v) { return hasBatch(state, v, batch); }) ||
          llvm::any_of(user->getResults(), [&](Value v) { return hasBatch(state, v, batch); }))
        return false;
      values.insert_range(user->getResults());
    }
  return true;
}

WholeBatch mlir::tpc::findWholeBatch(const PartitionState &state, int batch, bool micro) {
  WholeBatch whole;
  auto main = state.problem.module.lookupSymbol<func::FuncOp>("main");
  auto isExpensive = [&](Operation *op) {
    return !isa<ShardingRuleOpInterface>(op) || isa<AttentionOp, AttentionGradOp>(op) ||
           state.problem.getMatrix(op);
  };
  // Adds `op` with all its producers, or none of them.
  auto add = [&](Operation *op, BatchReason reason) {
    llvm::SetVector<Operation *> needed;
    needed.insert(op);
    auto block = [&](Operation *source) {
      whole.blockers.push_back({op, source, reason.always, reason.why});
    };
    if (!isa<ShardingRuleOpInterface>(op))
      return block(op);
    for (size_t i = 0; i < needed.size(); ++i)
      for (Value operand : needed[i]->getOperands()) {
        if (!hasBatch(state, operand, batch))
          continue;
        Operation *source = operand.getDefiningOp();
        if (!source && cast<BlockArgument>(operand).getOwner() != &main.front())
          return block(nullptr);
        if (source && isExpensive(source))
          return block(source);
        if (source)
          needed.insert(source);
      }
    whole.ops.insert_range(needed);
  };
  for (Operation *op : state.problem.getOps())
    if (std::optional<BatchReason> reason = getBatchReason(state, op, batch, micro)) {
      size_t before = whole.blockers.size();
      add(op, *reason);
      if (whole.blockers.size() > before && reason->isSum && canAccumulate(state, op, batch))
        whole.blockers.truncate(before);
    }
  for (Operation *op : state.problem.classes.getPreventingOps(batch))
    if (!isa<ShardingRuleOpInterface>(op))
      add(op, {"needs all of it", true});
  return whole;
}
