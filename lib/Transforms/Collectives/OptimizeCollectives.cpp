//===- OptimizeCollectives.cpp - Rewrites to fewer and smaller collectives ===//
//
// Works on the program of one rank, which all ranks run, so each rewrite applies to all ranks.
// There are no loops at this level. Three kinds of rewrites:
//
//   recompose  replaces consecutive collectives by the cheapest sequence for the same reshard
//   sink       moves a collective after the op that uses its result, if that sends fewer bytes:
//              add(gather a, gather b) becomes gather(add(a, b)). The op must be linear, or
//              parallel in the gathered factor, by its sharding rule
//   lift       moves reductions of a function's results to its calls, where results of several
//              calls are added (LiftReductions.cpp)
//
// Rewrites never increase the triple (bytes sent, number of collectives, number of slices). A
// rewrite that does not decrease it replaces an op by an op with a smaller operand. Therefore the
// pass terminates.
//
//===----------------------------------------------------------------------===//

#include "LiftReductions.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Transforms/Collectives/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_OPTIMIZECOLLECTIVES
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

using Kind = ReshardStep::Kind;

class Optimizer {
public:
  explicit Optimizer(ModuleOp module)
      : grid(MeshAttr::lookup(module)), planner(grid, getNominalSymbols(module)) {}

  bool recompose(Operation *op);
  bool unscatter(AllGatherOp gather);
  bool sink(Operation *op);

private:
  /// Rewritten form of an op: operands without collectives, and the collective after the op.
  struct SunkOp {
    Kind kind;
    SmallVector<StringAttr, 2> axes;
    int64_t dim = -1; // result dimension
    SmallVector<Value> operands;
    SmallVector<std::pair<unsigned, DistAttr>> slices; // operands to be sliced
    SetVector<Operation *> removed;
    DistAttr result;
  };
  bool moveGather(Operation *op, const ShardingRule &rule, unsigned operand, SunkOp &sunk);
  bool moveReduction(Operation *op, const ShardingRule &rule, unsigned operand, SunkOp &sunk);
  bool sinkOne(Operation *op, const SunkOp &sunk);

  Type localType(Value like, DistAttr dist) const {
    return makeTensorType(getElementTypeOrSelf(like.getType()), dist.withLocal(true), grid);
  }
  ReshardCost getCost(Operation *op) const {
    return planner.getCost(*getStepKind(op), getAxes(op), getGlobalForm(op->getOperand(0)),
                           getGlobalForm(op->getResult(0)));
  }

  MeshAttr grid;
  ReshardPlanner planner;
};

//===----------------------------------------------------------------------===//
// Consecutive collectives
//===----------------------------------------------------------------------===//

bool Optimizer::recompose(Operation *op) {
  if (!getStepKind(op))
    return false;
  ReshardCost old = getCost(op);
  Value source = op->getOperand(0);
  bool removesAll = true; // whether all collectives of the chain become dead
  while (getStepKind(source.getDefiningOp())) {
    Operation *before = source.getDefiningOp();
    removesAll &= source.hasOneUse();
    if (removesAll)
      old = old + getCost(before);
    source = before->getOperand(0);
    DistAttr from = getGlobalForm(source), to = getGlobalForm(op->getResult(0));
    auto path = planner.find(
        from, to, [](Kind kind, StringAttr axis, auto...) { return isPossible(kind, axis); });
    if (!path)
      continue;
    ReshardCost cost;
    DistAttr at = from;
    for (const ReshardStep &step : path->steps) {
      cost = cost + planner.getCost(step.kind, step.axes, at, step.result);
      at = step.result;
    }
    if (cost >= old)
      continue;
    OpBuilder builder(op);
    for (const ReshardStep &step : path->steps)
      source = emitReshardStep(builder, op->getLoc(), source, step, grid);
    op->getResult(0).replaceAllUsesWith(source);
    op->erase();
    return true;
  }
  return false;
}

/// Replaces a reduce-scatter and an all-gather of its result by an all-reduce, and a slice for the
/// other users of the scattered value (without any, `recompose` does so). The bytes are equal, with
/// one collective less.
bool Optimizer::unscatter(AllGatherOp gather) {
  auto scatter = gather.getOperand().getDefiningOp<ReduceScatterOp>();
  if (!scatter || scatter.getAxes() != gather.getAxes() || scatter.getDim() != gather.getDim())
    return false;
  OpBuilder builder(scatter);
  Value whole = AllReduceOp::create(builder, scatter.getLoc(), gather.getType(),
                                    scatter.getOperand(), scatter.getAxesAttr());
  Value part = LocalSliceOp::create(builder, scatter.getLoc(), scatter.getType(), whole,
                                    scatter.getAxesAttr(), scatter.getDimAttr());
  gather.getResult().replaceAllUsesWith(whole);
  scatter.getResult().replaceAllUsesWith(part);
  gather.erase();
  scatter.erase();
  return true;
}

//===----------------------------------------------------------------------===//
// Collectives after ops
//===----------------------------------------------------------------------===//

/// Returns the dimension that consists only of `factor`, -1 if the factor does not occur, or
/// nothing if it occurs twice or among other factors.
std::optional<int64_t> findDim(const ShardingRule::Dims &dims, int factor) {
  int64_t found = -1;
  for (auto [d, dim] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(dim, factor))
      continue;
    if (dim.size() != 1 || found >= 0)
      return std::nullopt;
    found = d;
  }
  return found;
}

bool usesAny(DistAttr dist, ArrayRef<StringAttr> axes) {
  return llvm::any_of(axes, [&](StringAttr axis) { return dist.usesAxis(axis.getValue()); });
}

/// Returns `dist`, unreduced over `axes` too; null if it has another kind of reduction.
DistAttr addPartial(DistAttr dist, ReductionKind kind, ArrayRef<StringAttr> axes) {
  if (dist.getPartial() && dist.getPartial().getKind() != kind)
    return {};
  SmallVector<StringAttr> all(dist.getPartialAxes());
  llvm::append_range(all, axes);
  return dist.withPartial(PartialAttr::get(dist.getContext(), kind, all));
}

/// Runs an op on shards instead of gathered values. If the gathered factor is parallel in the op,
/// the result is gathered; if it is a reduction, the result is all-reduced.
bool Optimizer::moveGather(Operation *op, const ShardingRule &rule, unsigned lead, SunkOp &sunk) {
  auto gather = op->getOperand(lead).getDefiningOp<AllGatherOp>();
  const ShardingRule::Dim &factors = rule.operands[lead][gather.getDim()];
  if (factors.size() != 1)
    return false;
  int factor = factors[0];
  auto reduction = getReduction(rule.factors[factor].kind);
  if (!reduction && rule.factors[factor].kind != FactorKind::Parallel)
    return false;
  sunk.axes = getAxes(gather);
  DimAttr part = getDist(gather.getOperand()).getDims()[gather.getDim()];

  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto dim = findDim(rule.operands[i], factor);
    if (!dim)
      return false;
    auto other = operand.getDefiningOp<AllGatherOp>();
    if (*dim >= 0 && other && int64_t(other.getDim()) == *dim &&
        other.getAxes() == gather.getAxes() &&
        getDist(other.getOperand()).getDims()[*dim] == part) {
      sunk.operands.push_back(other.getOperand());
      sunk.removed.insert(other);
      continue;
    }
    DistAttr dist = getGlobalForm(operand);
    if (usesAny(dist, sunk.axes))
      return false;
    sunk.operands.push_back(operand);
    if (*dim < 0)
      continue;
    // Slicing a replicated operand is free, but it is not worthwhile for partial sums.
    if (reduction)
      return false;
    sunk.slices.push_back({unsigned(i), withDim(dist, *dim, part)});
  }

  auto dim = findDim(rule.results[0], factor);
  sunk.result = getGlobalForm(op->getResult(0));
  if (!dim || usesAny(sunk.result, sunk.axes))
    return false;
  if (reduction) {
    sunk.kind = Kind::AllReduce;
    sunk.result = addPartial(sunk.result, *reduction, sunk.axes);
    return *dim < 0 && sunk.result;
  }
  sunk.kind = Kind::AllGather;
  sunk.dim = *dim;
  if (*dim < 0)
    return false;
  sunk.result = withDim(sunk.result, *dim, part);
  return true;
}

/// Runs a linear op on unreduced instead of reduced operands, and reduces the result.
bool Optimizer::moveReduction(Operation *op, const ShardingRule &rule, unsigned lead,
                              SunkOp &sunk) {
  Operation *first = op->getOperand(lead).getDefiningOp();
  ReductionKind reduction = getDist(first->getOperand(0)).getPartial().getKind();
  const ShardingRule::Linear *linear = llvm::find_if(rule.linear, [&](const auto &l) {
    return llvm::is_contained(l.operands, int(lead)) &&
           (l.movesOnly || reduction == ReductionKind::Sum);
  });
  // The element type must not change, so that rounding is the same.
  if (linear == rule.linear.end() || getElementTypeOrSelf(op->getResult(0).getType()) !=
                                         getElementTypeOrSelf(op->getOperand(lead).getType()))
    return false;
  sunk.kind = *getStepKind(first);
  sunk.axes = getAxes(first);
  int factor = -1; // factor of the scattered dimension
  if (sunk.kind == Kind::ReduceScatter) {
    const ShardingRule::Dim &factors = rule.operands[lead][getDim(first)];
    if (factors.size() != 1 || rule.factors[factors[0]].kind != FactorKind::Parallel)
      return false;
    factor = factors[0];
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto dim = findDim(rule.operands[i], factor);
    if (!llvm::is_contained(linear->operands, int(i))) {
      if (dim != -1 || usesAny(getGlobalForm(operand), sunk.axes))
        return false;
      sunk.operands.push_back(operand);
      continue;
    }
    Operation *other = operand.getDefiningOp();
    if (getStepKind(other) != sunk.kind || getAxes(other) != sunk.axes || dim != getDim(other) ||
        getDist(other->getOperand(0)).getPartial().getKind() != reduction)
      return false;
    sunk.operands.push_back(other->getOperand(0));
    sunk.removed.insert(other);
  }
  sunk.result = getGlobalForm(op->getResult(0));
  if (factor >= 0) {
    auto dim = findDim(rule.results[0], factor);
    if (!dim || *dim < 0)
      return false;
    sunk.dim = *dim;
    sunk.result =
        withDim(sunk.result, *dim, getGlobalForm(first->getOperand(0)).getDims()[getDim(first)]);
  }
  if (usesAny(sunk.result, sunk.axes))
    return false;
  sunk.result = addPartial(sunk.result, reduction, sunk.axes);
  return bool(sunk.result);
}

/// Returns true if the op's types satisfy its sharding rule. An op may be invalid on shards: a rank
/// cannot shift its shard of a run alone.
static bool isDistributed(Operation *op) {
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  return succeeded(verifyDistribution(op));
}

bool Optimizer::sinkOne(Operation *op, const SunkOp &sunk) {
  Value result = op->getResult(0);
  DistAttr after = getGlobalForm(result);
  // Collectives with other users are kept.
  ReshardCost removedCost;
  for (Operation *collective : sunk.removed)
    if (llvm::all_of(collective->getUsers(), [&](Operation *user) { return user == op; })) {
      ReshardCost cost = getCost(collective);
      cost.sent *= getElementBytes(collective->getResult(0));
      removedCost = removedCost + cost;
    }
  ReshardCost addedCost = planner.getCost(sunk.kind, sunk.axes, sunk.result, after);
  addedCost.sent *= getElementBytes(result);
  // Also rewrites at equal cost if the op then computes on a shard.
  bool isCheaper = addedCost < removedCost;
  bool isEqual = addedCost == removedCost && sunk.kind == Kind::AllGather && sunk.slices.empty();
  if (!isCheaper && !isEqual)
    return false;

  OpBuilder builder(op);
  Operation *clone = builder.clone(*op);
  clone->setOperands(sunk.operands);
  builder.setInsertionPoint(clone);
  auto axes = builder.getArrayAttr(SmallVector<Attribute>(sunk.axes.begin(), sunk.axes.end()));
  SmallVector<Operation *> slices;
  for (auto [i, dist] : sunk.slices) {
    Value whole = clone->getOperand(i);
    int64_t dim = 0;
    while (dist.getDims()[dim] == getDist(whole).getDims()[dim])
      ++dim;
    auto slice =
        LocalSliceOp::create(builder, op->getLoc(), localType(whole, dist), whole, axes, dim);
    clone->setOperand(i, slice);
    slices.push_back(slice);
  }
  clone->getResult(0).setType(localType(result, sunk.result));
  if (!isDistributed(clone)) {
    clone->erase();
    for (Operation *slice : slices)
      slice->erase();
    return false;
  }
  builder.setInsertionPointAfter(clone);
  ReshardStep step{sunk.kind, sunk.axes, sunk.dim, -1, after};
  result.replaceAllUsesWith(
      emitReshardStep(builder, op->getLoc(), clone->getResult(0), step, grid));
  op->erase();
  return true;
}

bool Optimizer::sink(Operation *op) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled || op->getNumResults() != 1 || op->use_empty())
    return false;
  std::optional<ShardingRule> rule;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto kind = getStepKind(operand.getDefiningOp());
    if (!kind || *kind == Kind::Slice || *kind == Kind::AllToAll || *kind == Kind::Permute ||
        *kind == Kind::Exchange)
      continue;
    if (!rule)
      rule = ruled.getShardingRule();
    SunkOp sunk;
    bool possible = *kind == Kind::AllGather ? moveGather(op, *rule, i, sunk)
                                             : moveReduction(op, *rule, i, sunk);
    if (possible && sinkOne(op, sunk))
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

struct OptimizeCollectives : public mlir::tpc::impl::OptimizeCollectivesBase<OptimizeCollectives> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(requireGrid(module, "tpc-assign-shardings and the passes up to tpc-localize")))
      return signalPassFailure();
    Optimizer optimizer(module);
    auto clean = [&] {
      IRRewriter rewriter(&getContext());
      for (auto function : module.getOps<func::FuncOp>()) {
        // Visits users first, so that whole dead chains are erased.
        for (Block &block : function)
          for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
            if (isOpTriviallyDead(&op))
              op.erase();
        DominanceInfo dominance(function);
        eliminateCommonSubExpressions(rewriter, dominance, function);
      }
    };
    bool changed = true;
    while (changed) {
      changed = false;
      clean();
      for (auto function : module.getOps<func::FuncOp>())
        for (Block &block : function)
          for (Operation &op : llvm::make_early_inc_range(block))
            if (optimizer.recompose(&op) || optimizer.sink(&op))
              changed = true;
      module.walk([&](AllGatherOp gather) { changed |= optimizer.unscatter(gather); });
      changed |= liftReductions(module);
    }
  }
};

} // namespace
