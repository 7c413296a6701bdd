//===- OptimizeCollectives.cpp - Fewer bytes, fewer collectives -----------===//
//
// Works on one rank's program. All ranks run the same ops in the same order, so that what
// all of them leave out, join or move keeps them in step; a collective is only ever joined with
// others over the same axes, in the same function, and there are no loops yet.
//
//   recompose  collectives in a row are one reshard, made anew if that is cheaper
//   sink       a collective below the op that uses its result, where less is left to send:
//              add(gather a, gather b) becomes gather(add(a, b)), and all ops that are linear
//              or parallel in a factor go the same way, as their sharding rule says
//
// Recomposing and sinking never add to (bytes sent, number of collectives, number of slices) as a
// triple, and where they leave it as it is an op with a smaller operand takes the place of one
// with a larger: they end.
//
//===----------------------------------------------------------------------===//

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
      : grid(GridAttr::lookup(module)), planner(grid, getNominalSymbols(module)) {}

  bool recompose(Operation *op);
  bool unscatter(AllGatherOp gather);
  bool sink(Operation *op);

private:
  /// What an op would be without collectives before it.
  struct Moved {
    Kind kind;
    SmallVector<StringAttr, 2> axes;
    int64_t dim = -1; // of the result
    SmallVector<Value> operands;
    SmallVector<std::pair<unsigned, DistAttr>> slices; // operands of which a part is needed
    SetVector<Operation *> removed;
    DistAttr result;
  };
  bool moveGather(Operation *op, const ShardingRule &rule, unsigned operand, Moved &moved);
  bool moveReduction(Operation *op, const ShardingRule &rule, unsigned operand, Moved &moved);
  bool sinkOne(Operation *op, const Moved &moved);

  Type localType(Value like, DistAttr dist) const {
    return makeTensorType(getElementTypeOrSelf(like.getType()), dist.withLocal(true), grid);
  }
  ReshardCost getCost(Operation *op) const {
    return planner.getCost(*getStepKind(op), getAxes(op), getGlobalForm(op->getOperand(0)),
                           getGlobalForm(op->getResult(0)));
  }

  GridAttr grid;
  ReshardPlanner planner;
};

//===----------------------------------------------------------------------===//
// Collectives in a row
//===----------------------------------------------------------------------===//

bool Optimizer::recompose(Operation *op) {
  if (!getStepKind(op))
    return false;
  ReshardCost old = getCost(op);
  Value source = op->getOperand(0);
  bool goes = true; // what is between goes with `op`
  while (getStepKind(source.getDefiningOp())) {
    Operation *before = source.getDefiningOp();
    goes &= source.hasOneUse();
    if (goes)
      old = old + getCost(before);
    source = before->getOperand(0);
    DistAttr from = getGlobalForm(source), to = getGlobalForm(op->getResult(0));
    auto path = planner.find(
        from, to, [](Kind, StringAttr axis, DistAttr, int64_t) { return axis.getValue() != "mb"; });
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

/// A scattered value that is gathered again, and used in parts by others: reduced as a whole
/// it is sent as often, in one collective.
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
// Collectives below ops
//===----------------------------------------------------------------------===//

/// The dimension that consists of `factor` alone. -1 where the factor does not occur; nothing where
/// it occurs twice or beside others.
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

/// Null where the value already reduces in another way.
DistAttr addPartial(DistAttr dist, ReductionKind kind, ArrayRef<StringAttr> axes) {
  if (dist.getPartial() && dist.getPartial().getKind() != kind)
    return {};
  SmallVector<StringAttr> all(dist.getPartialAxes());
  llvm::append_range(all, axes);
  return dist.withPartial(PartialAttr::get(dist.getContext(), kind, all));
}

/// An op on gathered values works on the parts. If it runs through the dimension, its result is
/// gathered; if it reduces it, its result is all-reduced.
bool Optimizer::moveGather(Operation *op, const ShardingRule &rule, unsigned lead, Moved &moved) {
  auto gather = op->getOperand(lead).getDefiningOp<AllGatherOp>();
  const ShardingRule::Dim &factors = rule.operands[lead][gather.getDim()];
  if (factors.size() != 1)
    return false;
  int factor = factors[0];
  auto reduction = getReduction(rule.factors[factor].kind);
  if (!reduction && rule.factors[factor].kind != FactorKind::Parallel)
    return false;
  moved.axes = getAxes(gather);
  DimAttr part = getDist(gather.getOperand()).getDims()[gather.getDim()];

  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto dim = findDim(rule.operands[i], factor);
    if (!dim)
      return false;
    auto other = operand.getDefiningOp<AllGatherOp>();
    if (*dim >= 0 && other && int64_t(other.getDim()) == *dim &&
        other.getAxes() == gather.getAxes() &&
        getDist(other.getOperand()).getDims()[*dim] == part) {
      moved.operands.push_back(other.getOperand());
      moved.removed.insert(other);
      continue;
    }
    DistAttr dist = getGlobalForm(operand);
    if (usesAny(dist, moved.axes))
      return false;
    moved.operands.push_back(operand);
    if (*dim < 0)
      continue;
    // A part of a whole value is free, but partial sums of a part of one factor are not worth it.
    if (reduction)
      return false;
    moved.slices.push_back({unsigned(i), withDim(dist, *dim, part)});
  }

  auto dim = findDim(rule.results[0], factor);
  moved.result = getGlobalForm(op->getResult(0));
  if (!dim || usesAny(moved.result, moved.axes))
    return false;
  if (reduction) {
    moved.kind = Kind::AllReduce;
    moved.result = addPartial(moved.result, *reduction, moved.axes);
    return *dim < 0 && moved.result;
  }
  moved.kind = Kind::AllGather;
  moved.dim = *dim;
  if (*dim < 0)
    return false;
  moved.result = withDim(moved.result, *dim, part);
  return true;
}

/// An op that is linear in reduced values works on the unreduced ones; its result is reduced.
bool Optimizer::moveReduction(Operation *op, const ShardingRule &rule, unsigned lead,
                              Moved &moved) {
  Operation *first = op->getOperand(lead).getDefiningOp();
  ReductionKind reduction = getDist(first->getOperand(0)).getPartial().getKind();
  const ShardingRule::Linear *linear = llvm::find_if(rule.linear, [&](const auto &l) {
    return llvm::is_contained(l.operands, int(lead)) &&
           (l.movesOnly || reduction == ReductionKind::Sum);
  });
  // Sums are made in the type that they were made in.
  if (linear == rule.linear.end() || getElementTypeOrSelf(op->getResult(0).getType()) !=
                                         getElementTypeOrSelf(op->getOperand(lead).getType()))
    return false;
  moved.kind = *getStepKind(first);
  moved.axes = getAxes(first);
  int factor = -1; // of the dimension that is scattered
  if (moved.kind == Kind::ReduceScatter) {
    const ShardingRule::Dim &factors = rule.operands[lead][getDim(first)];
    if (factors.size() != 1 || rule.factors[factors[0]].kind != FactorKind::Parallel)
      return false;
    factor = factors[0];
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto dim = findDim(rule.operands[i], factor);
    if (!llvm::is_contained(linear->operands, int(i))) {
      if (dim != -1 || usesAny(getGlobalForm(operand), moved.axes))
        return false;
      moved.operands.push_back(operand);
      continue;
    }
    Operation *other = operand.getDefiningOp();
    if (getStepKind(other) != moved.kind || getAxes(other) != moved.axes || dim != getDim(other) ||
        getDist(other->getOperand(0)).getPartial().getKind() != reduction)
      return false;
    moved.operands.push_back(other->getOperand(0));
    moved.removed.insert(other);
  }
  moved.result = getGlobalForm(op->getResult(0));
  if (factor >= 0) {
    auto dim = findDim(rule.results[0], factor);
    if (!dim || *dim < 0)
      return false;
    moved.dim = *dim;
    moved.result =
        withDim(moved.result, *dim, getGlobalForm(first->getOperand(0)).getDims()[getDim(first)]);
  }
  if (usesAny(moved.result, moved.axes))
    return false;
  moved.result = addPartial(moved.result, reduction, moved.axes);
  return bool(moved.result);
}

/// Whether the op's own rule allows what its types say. On a part it may need more than on the
/// whole: a rank cannot shift its part of a run alone.
static bool isDistributed(Operation *op) {
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  return succeeded(verifyDistribution(op));
}

bool Optimizer::sinkOne(Operation *op, const Moved &moved) {
  Value result = op->getResult(0);
  DistAttr after = getGlobalForm(result);
  // Collectives that others need as well stay.
  ReshardCost gone;
  for (Operation *collective : moved.removed)
    if (llvm::all_of(collective->getUsers(), [&](Operation *user) { return user == op; })) {
      ReshardCost cost = getCost(collective);
      cost.sent *= getElementBytes(collective->getResult(0));
      gone = gone + cost;
    }
  ReshardCost come = planner.getCost(moved.kind, moved.axes, moved.result, after);
  come.sent *= getElementBytes(result);
  // As much to send, but less to compute: the op works on a part.
  bool less = come < gone;
  bool same = come == gone && moved.kind == Kind::AllGather && moved.slices.empty();
  if (!less && !same)
    return false;

  OpBuilder builder(op);
  Operation *clone = builder.clone(*op);
  clone->setOperands(moved.operands);
  builder.setInsertionPoint(clone);
  auto axes = builder.getArrayAttr(SmallVector<Attribute>(moved.axes.begin(), moved.axes.end()));
  SmallVector<Operation *> slices;
  for (auto [i, dist] : moved.slices) {
    Value whole = clone->getOperand(i);
    int64_t dim = 0;
    while (dist.getDims()[dim] == getDist(whole).getDims()[dim])
      ++dim;
    auto slice =
        LocalSliceOp::create(builder, op->getLoc(), localType(whole, dist), whole, axes, dim);
    clone->setOperand(i, slice);
    slices.push_back(slice);
  }
  clone->getResult(0).setType(localType(result, moved.result));
  if (!isDistributed(clone)) {
    clone->erase();
    for (Operation *slice : slices)
      slice->erase();
    return false;
  }
  builder.setInsertionPointAfter(clone);
  ReshardStep step{moved.kind, moved.axes, moved.dim, -1, after};
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
    Moved moved;
    bool possible = *kind == Kind::AllGather ? moveGather(op, *rule, i, moved)
                                             : moveReduction(op, *rule, i, moved);
    if (possible && sinkOne(op, moved))
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// The pass
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
        // Users first, so that all of a dead chain goes.
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
    }
  }
};

} // namespace
