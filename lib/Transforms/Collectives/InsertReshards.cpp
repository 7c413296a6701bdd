//===- InsertReshards.cpp - Distributed types and reshards ----------------===//

#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Transforms/Collectives/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_INSERTRESHARDS
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Required distributions of an op's operands and produced distributions of its results, if no
/// operand is unreduced.
struct Requirements {
  SmallVector<DistAttr> operands, results;
  /// Axes that split a reduction factor, and the reduction kind.
  PartialAttr partial;
};

class Inserter {
public:
  explicit Inserter(ModuleOp module) : module(module), symbols(getNominalSymbols(module)) {}
  LogicalResult run();

private:
  LogicalResult processFunction(func::FuncOp function);
  LogicalResult processOp(Operation *op, ShardingRuleOpInterface ruled);
  FailureOr<Requirements> getRequirements(Operation *op, const ShardingRule &rule);
  SmallVector<int, 2> getUnreducedOperands(Operation *op, const ShardingRule &rule,
                                           const Requirements &required, StringAttr axis);
  double countElements(DistAttr dist) const;
  void reshard(OpOperand &use, DistAttr target);
  LogicalResult reshardResult(Operation *op);
  bool isWeight(Value value) const;
  static void setDist(Value value, DistAttr dist) {
    value.setType(makeTensorType(cast<RankedTensorType>(value.getType()).getElementType(), dist));
  }

  ModuleOp module;
  Symbols symbols;
  DenseSet<Operation *> done;
  DenseMap<std::pair<Value, Type>, Value> reshards;
  DenseMap<Value, Value> reductions;
  DenseMap<Operation *, func::CallOp> callers; // one caller per function
};

FailureOr<Requirements> Inserter::getRequirements(Operation *op, const ShardingRule &rule) {
  MLIRContext *context = op->getContext();
  SmallVector<DimAttr> splits;
  if (auto attr = op->getAttrOfType<ArrayAttr>(kSplitAttr)) {
    for (Attribute dim : attr)
      splits.push_back(dyn_cast<DimAttr>(dim));
    if (splits.size() != rule.factors.size())
      return op->emitOpError() << kSplitAttr << " has " << splits.size() << " entries, but its "
                               << "sharding rule has " << rule.factors.size() << " factors";
    for (auto [dim, factor] : llvm::zip(splits, rule.factors)) {
      if (!dim || dim.getExpr() != factor.size)
        return op->emitOpError() << kSplitAttr << " " << (dim ? dim.getExpr().str() : "?")
                                 << " does not fit the factor of size " << factor.size.str();
      if (factor.kind == FactorKind::Unsplittable && dim.isSharded())
        return op->emitOpError() << kSplitAttr << " splits the factor of size " << factor.size.str()
                                 << ", which the op needs unsplit";
    }
  } else {
    for (const ShardingRule::Factor &factor : rule.factors)
      splits.push_back(DimAttr::get(context, factor.size));
  }

  Requirements required;
  for (const ShardingRule::Dims &dims : rule.operands)
    required.operands.push_back(composeDist(context, dims, splits));
  for (const ShardingRule::Dims &dims : rule.results)
    required.results.push_back(composeDist(context, dims, splits));
  if (llvm::is_contained(required.operands, DistAttr()) ||
      llvm::is_contained(required.results, DistAttr()))
    return op->emitOpError() << kSplitAttr
                             << " splits a product of factors inside a larger dimension";

  SmallVector<StringAttr> axes;
  std::optional<ReductionKind> kind;
  for (auto [dim, factor] : llvm::zip(splits, rule.factors))
    if (auto reduction = getReduction(factor.kind); reduction && dim.isSharded()) {
      if (kind && kind != reduction)
        return op->emitOpError("reduces in two ways over split factors");
      kind = reduction;
      llvm::append_range(axes, dim.getAllAxes());
    }
  if (kind)
    required.partial = PartialAttr::get(context, *kind, axes);
  return required;
}

double Inserter::countElements(DistAttr dist) const {
  double count = 1;
  MeshAttr grid = MeshAttr::lookup(module);
  for (DimAttr dim : dist.getDims())
    count *= double(dim.getLocalSize(grid, {}, symbols).value_or(1));
  return count;
}

/// Returns the operands that may be unreduced over `axis` at `op`: none, or the operands of one
/// entry of `linear`.
SmallVector<int, 2> Inserter::getUnreducedOperands(Operation *op, const ShardingRule &rule,
                                                   const Requirements &required, StringAttr axis) {
  SmallVector<int, 2> unreduced;
  std::optional<ReductionKind> kind;
  double in = 0, out = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    DistAttr dist = getDist(operand);
    if (!dist.isUnreducedOver(axis))
      continue;
    // Requires that the op is the only user and that no reshard is needed.
    if (kind && kind != dist.getPartial().getKind())
      return {};
    kind = dist.getPartial().getKind();
    bool isOnlyUser = llvm::all_of(operand.getUsers(), [&](Operation *user) { return user == op; });
    if (!isOnlyUser || dist.withPartial({}) != required.operands[i])
      return {};
    unreduced.push_back(i);
    in += countElements(dist);
  }
  if (unreduced.empty() ||
      (required.partial && llvm::is_contained(required.partial.getAxes(), axis)) ||
      (required.partial && required.partial.getKind() != *kind))
    return {};
  bool linear = llvm::any_of(rule.linear, [&](const ShardingRule::Linear &l) {
    return ArrayRef<int>(l.operands) == ArrayRef<int>(unreduced) &&
           (l.movesOnly || *kind == ReductionKind::Sum);
  });
  if (!linear)
    return {};
  for (DistAttr result : required.results) {
    if (result.usesAxis(axis))
      return {};
    out += countElements(result);
  }
  if (out > in)
    return {};
  return unreduced;
}

bool Inserter::isWeight(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto it = callers.find(argument.getOwner()->getParentOp());
    return it != callers.end() &&
           isWeight(func::CallOp(it->second).getOperand(argument.getArgNumber()));
  }
  return isa<ParameterOp>(value.getDefiningOp());
}

/// Reshards the value of `use` to `target`, or reuses an existing reshard. Uses are visited in
/// program order.
void Inserter::reshard(OpOperand &use, DistAttr target) {
  Value value = use.get();
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  RankedTensorType type = makeTensorType(element, target);
  if (type == value.getType())
    return;
  Value &shared = reshards[{value, type}];
  if (!shared) {
    OpBuilder builder(module.getContext());
    // Reuse an existing reduction.
    if (getDist(value).getPartial() && !target.getPartial()) {
      Value &reduced = reductions[value];
      if (reduced)
        value = reduced;
    }
    // A sharded weight is gathered right before its use, so that the gathered copy is live for a
    // short time.
    if (isWeight(value))
      builder.setInsertionPoint(use.getOwner());
    else
      builder.setInsertionPointAfterValue(value);
    shared = ReshardOp::create(
        builder, value.getDefiningOp() ? value.getLoc() : use.getOwner()->getLoc(), type, value);
    if (getDist(value).getPartial() && !target.getPartial())
      reductions[value] = shared;
  }
  use.set(shared);
}

LogicalResult Inserter::processOp(Operation *op, ShardingRuleOpInterface ruled) {
  ShardingRule rule = ruled.getShardingRule();
  FailureOr<Requirements> required = getRequirements(op, rule);
  if (failed(required))
    return failure();

  SmallVector<SmallVector<StringAttr>> keep(op->getNumOperands());
  SmallVector<StringAttr> axes;
  std::optional<ReductionKind> kind;
  if (required->partial) {
    kind = required->partial.getKind();
    llvm::append_range(axes, required->partial.getAxes());
  }
  SmallVector<StringAttr> unreduced;
  for (Value operand : op->getOperands())
    for (StringAttr axis : getDist(operand).getPartialAxes())
      if (!llvm::is_contained(unreduced, axis))
        unreduced.push_back(axis);
  for (StringAttr axis : unreduced)
    for (int i : getUnreducedOperands(op, rule, *required, axis)) {
      keep[i].push_back(axis);
      kind = getDist(op->getOperand(i)).getPartial().getKind();
      if (!llvm::is_contained(axes, axis))
        axes.push_back(axis);
    }

  for (OpOperand &use : op->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    DistAttr target = required->operands[i];
    if (!keep[i].empty()) {
      // Keeps the operand's axis order, so that an unchanged operand needs no reshard.
      PartialAttr have = getDist(use.get()).getPartial();
      auto kept = llvm::filter_to_vector(
          have.getAxes(), [&](StringAttr axis) { return llvm::is_contained(keep[i], axis); });
      target = target.withPartial(PartialAttr::get(op->getContext(), have.getKind(), kept));
    }
    reshard(use, target);
  }
  PartialAttr partial =
      axes.empty() ? PartialAttr() : PartialAttr::get(op->getContext(), *kind, axes);
  for (auto [result, dist] : llvm::zip(op->getResults(), required->results))
    setDist(result, dist.withPartial(partial));
  return reshardResult(op);
}

/// Reshards a result whose annotation requires another distribution than the op produces.
LogicalResult Inserter::reshardResult(Operation *op) {
  Attribute attr = op->removeAttr(kResultSplitAttr);
  if (!attr)
    return success();
  auto list = dyn_cast<ArrayAttr>(attr);
  SmallVector<::tpc::SymExpr> sizes;
  if (op->getNumResults() == 1)
    sizes = getSizes(op->getResult(0));
  bool valid = list && list.size() == sizes.size() && op->getNumResults() == 1;
  SmallVector<DimAttr> dims;
  for (size_t d = 0; valid && d < sizes.size(); ++d) {
    auto dim = dyn_cast<DimAttr>(list[d]);
    valid = dim && dim.getExpr() == sizes[d];
    dims.push_back(dim);
  }
  if (!valid)
    return op->emitOpError() << kResultSplitAttr
                             << " must have one #tpc.dim for each dimension of the "
                             << "op's only result, of its size";
  Value result = op->getResult(0);
  RankedTensorType type = makeTensorType(cast<RankedTensorType>(result.getType()).getElementType(),
                                         DistAttr::get(op->getContext(), dims));
  if (type == result.getType())
    return success();
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto resharded = ReshardOp::create(builder, op->getLoc(), type, result);
  result.replaceAllUsesExcept(resharded.getResult(), resharded);
  return success();
}

LogicalResult Inserter::processFunction(func::FuncOp function) {
  if (!done.insert(function).second || function.isExternal())
    return success();
  for (BlockArgument argument : function.getArguments()) {
    DistAttr dist = getDist(argument);
    auto split = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), kSplitAttr);
    if (!split)
      continue;
    SmallVector<DimAttr> dims = llvm::to_vector(split.getAsRange<DimAttr>());
    if (dims.size() != dist.getDims().size())
      return emitError(function.getLoc())
             << kSplitAttr << " of argument " << argument.getArgNumber() << " has " << dims.size()
             << " entries for " << dist.getDims().size() << " dimensions";
    setDist(argument, DistAttr::get(function.getContext(), dims));
  }

  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (failed(processFunction(callee)))
        return failure();
      for (OpOperand &use : call->getOpOperands())
        reshard(use, getDist(callee.getArgument(use.getOperandNumber())));
      for (auto [result, type] : llvm::zip(call.getResults(), callee.getResultTypes()))
        result.setType(type);
    } else if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
      if (failed(processOp(&op, ruled)))
        return failure();
    } else if (isa<func::ReturnOp>(op)) {
      for (OpOperand &use : op.getOpOperands()) {
        // Only @main can complete a sum over micro-batches, after the last one.
        DistAttr dist = getDist(use.get());
        bool isIncomplete = function.getName() != "main" && dist.isUnreducedOver(kMicroBatchAxis);
        reshard(use, isIncomplete ? dist : dist.withPartial({}));
      }
    } else {
      for (OpOperand &use : op.getOpOperands())
        reshard(use, getDist(use.get()).getGlobal());
    }
  }
  function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                     function.front().getTerminator()->getOperandTypes()));
  return success();
}

LogicalResult Inserter::run() {
  module.walk([&](func::CallOp call) {
    if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
      callers.try_emplace(callee, call);
  });
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(processFunction(function)))
      return failure();
  return success();
}

} // namespace

LogicalResult mlir::tpc::insertReshards(ModuleOp module) { return Inserter(module).run(); }

namespace {
struct InsertReshards : public mlir::tpc::impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override {
    if (failed(insertReshards(getOperation())))
      return signalPassFailure();
    getOperation().walk([](Operation *op) {
      op->removeDiscardableAttr(kSplitAttr);
      if (auto function = dyn_cast<func::FuncOp>(op))
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          function.removeArgAttr(i, StringAttr::get(op->getContext(), kSplitAttr));
    });
  }
};

} // namespace
