//===- WholeBatch.cpp - What sees all samples of a step -------------------===//
//
// Most ops of a transformer treat each sample alone. Some do not: a mask is picked from by an index
// into the batch, similarities are taken between all samples, a mean is taken over them. Replicas
// could gather the samples; micro-batches cannot, as a rank has one at a time. But inputs are whole
// on every rank, and what is computed from them alone is little: masks, positions, indices. So
//
//     %m = tpc.cast %mask           [batch, sequence]      of all samples, on every rank
//     %i = tpc.gather_nd %m, ...    [batch, sequence]      of all samples, on every rank
//     %y = tpc.add %x, %i           [batch{dp, mb}, ...]   of this rank's samples, in this round
//
// where the slice between the last two is free. What is computed from weights (products, tables,
// attention) or inside of a layer is more than that, and stays refused.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Why an op needs all of the batch.
struct Need {
  StringRef why;
  bool always = false;
};
} // namespace

static bool hasBatch(Plan const &plan, Value value, int batch) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  for (unsigned dim = 0; type && dim < type.getRank(); ++dim)
    if (llvm::is_contained(plan.classes.getClasses(value, dim), batch))
      return true;
  return false;
}

static std::optional<Need> getNeed(const Plan &plan, Operation *op, int batch, bool micro) {
  if (llvm::is_contained(plan.classes.getWholeOps(batch), op))
    return Need{"needs all of it", true};
  // What replicas can communicate is no need of theirs.
  if (!micro)
    return std::nullopt;
  const ShardingRule &rule = plan.classes.getRule(op);
  unsigned count = 0;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    int found = llvm::count(plan.classes.getFactorClasses(op, factor), batch);
    count += found;
    if (plan.isPermuted({op, factor}, batch))
      return Need{"shifts along it"};
    if (found && getReduction(rule.factors[factor].kind))
      return Need{"combines samples"};
  }
  if (count > 1)
    return Need{"has it in two dimensions"};
  return std::nullopt;
}

WholeBatch mlir::tpc::findWholeBatch(const Plan &plan, int batch, bool micro) {
  WholeBatch whole;
  auto main = plan.module.lookupSymbol<func::FuncOp>("main");
  auto isMuch = [&](Operation *op) {
    return !isa<ShardingRuleOpInterface>(op) || isa<AttentionOp>(op) || plan.getMatrix(op);
  };
  // With everything that `op` is computed from, or not at all.
  auto add = [&](Operation *op, Need need) {
    llvm::SetVector<Operation *> needed;
    needed.insert(op);
    auto stop = [&](Operation *source) {
      whole.stuck.push_back({op, source, need.always, need.why});
    };
    if (!isa<ShardingRuleOpInterface>(op))
      return stop(op);
    for (size_t i = 0; i < needed.size(); ++i)
      for (Value operand : needed[i]->getOperands()) {
        if (!hasBatch(plan, operand, batch))
          continue;
        Operation *source = operand.getDefiningOp();
        if (!source && cast<BlockArgument>(operand).getOwner() != &main.front())
          return stop(nullptr);
        if (source && isMuch(source))
          return stop(source);
        if (source)
          needed.insert(source);
      }
    whole.ops.insert_range(needed);
  };
  for (Operation *op : plan.getOps())
    if (std::optional<Need> need = getNeed(plan, op, batch, micro))
      add(op, *need);
  for (Operation *op : plan.classes.getWholeOps(batch))
    if (!isa<ShardingRuleOpInterface>(op))
      add(op, {"needs all of it", true});
  return whole;
}
