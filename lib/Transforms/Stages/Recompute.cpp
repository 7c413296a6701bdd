//===- Recompute.cpp - Ops that each stage recomputes ---------------------===//

#include "PipelineChain.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Cost of recomputing a value from inputs, weights and constants.
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

  /// Maximum number of ops that are recomputed for one value. Bounds the search time.
  static constexpr unsigned maxOps = 512;

  func::FuncOp main;
  CostModel &model;
  double maxSeconds = 0, maxWeightBytes = 0;
  RecomputeLimits::Alternative alternative;
  DenseMap<Operation *, Closure> closures; // of recomputed ops
};

} // namespace

static bool isLeaf(Operation *op) { return op->getNumOperands() == 0; }

/// Whether an op may be recomputed: not communication (which has no sharding rule), and not calls
/// of layers.
static bool isLocal(Operation *op) { return isa<ShardingRuleOpInterface, LocalSliceOp>(op); }

Recompute::Recompute(func::FuncOp main, CostModel &model, int64_t stages, RecomputeLimits limits)
    : main(main), model(model), alternative(limits.alternative) {
  SmallVector<Operation *> parameters;
  for (Operation &op : main.front().without_terminator()) {
    // The limit is a share of computation without collectives, because the latency of a collective
    // may exceed the computation of a small model.
    if (!isa<CollectiveOpInterface>(op))
      maxSeconds += model.getCost(&op).seconds;
    if (isa<ParameterOp>(op))
      parameters.push_back(&op);
  }
  for (ParameterOp parameter : getDistinctParameters(parameters))
    maxWeightBytes += model.getBytes(parameter.getType());
  maxSeconds *= limits.share / double(stages);
  maxWeightBytes *= limits.share / double(stages);
}

/// Returns the closure of an op whose operands are all recomputed.
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
  // With one computing producer, the closure is exact; the closures of several producers may
  // overlap.
  if (llvm::count_if(producers, [](Operation *producer) { return !isLeaf(producer); }) <= 1) {
    for (Operation *producer : producers) {
      const Closure &producerClosure = closures[producer];
      closure.seconds += producerClosure.seconds;
      closure.weightBytes += producerClosure.weightBytes;
      closure.ops += producerClosure.ops;
      closure.usesInput |= producerClosure.usesInput;
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
  bool stores = alternative == RecomputeLimits::Alternative::Store;
  if (!closure.usesInput && (closure.weightBytes > 0 || !stores))
    return true;
  double seconds = 0;
  for (Type type : op->getResultTypes())
    seconds += stores                                              ? model.getStoreLoadSeconds(type)
               : alternative == RecomputeLimits::Alternative::Send ? model.getSendSeconds(type)
                                                                   : 0;
  // Weights that are used only by stored values are not counted, because they are loaded anyway.
  return closure.seconds <= std::max(seconds, maxSeconds) &&
         (stores || closure.weightBytes <= maxWeightBytes);
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
