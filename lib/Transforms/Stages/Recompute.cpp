//===- Recompute.cpp - What each stage computes again ---------------------===//

#include "Chain.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// What it takes to compute a value from inputs, weights and constants.
struct Closure {
  double seconds = 0;
  double weightBytes = 0;
  unsigned ops = 0;
  bool usesInput = false;
};

class Recompute {
public:
  Recompute(func::FuncOp main, CostModel &model, int64_t stages, RecomputeLimits limits);
  DenseSet<Operation *> run();

private:
  Closure getClosure(Operation *op);
  bool isAffordable(Operation *op, const Closure &closure) const;

  /// So many ops that one value needs are no longer a few, whatever they cost. This also bounds
  /// the time that finding them takes.
  static constexpr unsigned maxOps = 512;

  func::FuncOp main;
  CostModel &model;
  double maxSeconds = 0, maxWeightBytes = 0;
  RecomputeLimits::Else instead;
  DenseMap<Operation *, Closure> closures; // of ops that are recomputed
};

} // namespace

static bool isLeaf(Operation *op) { return op->getNumOperands() == 0; }

/// Communication has no rule. Layers are more than one op, and run in one stage.
static bool isLocal(Operation *op) { return isa<ShardingRuleOpInterface, LocalSliceOp>(op); }

Recompute::Recompute(func::FuncOp main, CostModel &model, int64_t stages, RecomputeLimits limits)
    : main(main), model(model), instead(limits.instead) {
  SmallVector<Operation *> parameters;
  for (Operation &op : main.front().without_terminator()) {
    // A share of what is computed: next to the latency of a collective, all of a small model is
    // cheap.
    if (!isa<CollectiveOpInterface>(op))
      maxSeconds += model.getCost(&op).seconds;
    if (isa<ParameterOp>(op))
      parameters.push_back(&op);
  }
  for (ParameterOp parameter : getHeldParameters(parameters))
    maxWeightBytes += model.getBytes(parameter.getType());
  maxSeconds *= limits.share / double(stages);
  maxWeightBytes *= limits.share / double(stages);
}

/// Of an op all of whose operands are recomputed.
Closure Recompute::getClosure(Operation *op) {
  Closure closure;
  llvm::SmallSetVector<Operation *, 4> producers;
  for (Value operand : op->getOperands()) {
    if (Operation *producer = operand.getDefiningOp())
      producers.insert(producer);
    else
      closure.usesInput = true;
  }
  auto addOne = [&](Operation *one) {
    Cost cost = model.getCost(one);
    closure.seconds += cost.seconds;
    closure.weightBytes += cost.weightBytes;
    closure.ops += !isLeaf(one);
  };
  addOne(op);
  // With one producer that computes, its closure is all of it; those of several may overlap.
  if (llvm::count_if(producers, [](Operation *producer) { return !isLeaf(producer); }) <= 1) {
    for (Operation *producer : producers) {
      const Closure &part = closures[producer];
      closure.seconds += part.seconds;
      closure.weightBytes += part.weightBytes;
      closure.ops += part.ops;
      closure.usesInput |= part.usesInput;
    }
    return closure;
  }
  llvm::SmallSetVector<Operation *, 16> all(producers.begin(), producers.end());
  for (size_t i = 0; i < all.size() && closure.ops <= maxOps; ++i) {
    addOne(all[i]);
    closure.usesInput |= closures[all[i]].usesInput;
    for (Value operand : all[i]->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        all.insert(producer);
  }
  return closure;
}

bool Recompute::isAffordable(Operation *op, const Closure &closure) const {
  if (closure.ops > maxOps)
    return false;
  bool holds = instead == RecomputeLimits::Else::Hold;
  if (!closure.usesInput && (closure.weightBytes > 0 || !holds))
    return true;
  double seconds = 0;
  for (Type type : op->getResultTypes())
    seconds += holds                                    ? model.getHoldSeconds(type)
               : instead == RecomputeLimits::Else::Send ? model.getSendSeconds(type)
                                                        : 0;
  // Weights that only what is held needs would be there all the same.
  return closure.seconds <= std::max(seconds, maxSeconds) &&
         (holds || closure.weightBytes <= maxWeightBytes);
}

DenseSet<Operation *> Recompute::run() {
  DenseSet<Operation *> recomputed;
  for (Operation &op : main.front().without_terminator()) {
    if (!isLocal(&op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          Operation *producer = operand.getDefiningOp();
          return producer && !recomputed.contains(producer);
        }))
      continue;
    Closure closure = getClosure(&op);
    if (!isAffordable(&op, closure))
      continue;
    closures[&op] = closure;
    recomputed.insert(&op);
  }
  return recomputed;
}

DenseSet<Operation *> mlir::tpc::findRecomputed(func::FuncOp main, CostModel &model, int64_t stages,
                                                RecomputeLimits limits) {
  return Recompute(main, model, stages, limits).run();
}
