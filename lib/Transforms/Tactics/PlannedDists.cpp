//===- PlannedDists.cpp - Distributions implied by a plan -----------------===//

#include "PlannedDists.h"

#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Transfer;

PlannedDists::PlannedDists(const PartitionState &state)
    : state(state), grid(MeshAttr::lookup(state.problem.module)), links(state.problem.module),
      planner(grid, getNominalSymbols(state.problem.module)) {}

//===----------------------------------------------------------------------===//
// Required and produced distributions
//===----------------------------------------------------------------------===//

SmallVector<DimAttr> PlannedDists::getSplits(Operation *op, AxesOf axesOf) const {
  MLIRContext *context = op->getContext();
  const PartitionState::Placement *placement = state.getPlacement(op);
  SmallVector<DimAttr> splits;
  for (unsigned factor = 0; factor < state.problem.classes.getRule(op).factors.size(); ++factor) {
    SmallVector<FactorAttr> factors;
    for (int cls : state.problem.classes.getFactorClasses(op, factor))
      factors.push_back(
          FactorAttr::get(context, state.problem.classes.getSize(cls), axesOf(cls, factor)));
    if (factors.empty())
      factors.push_back(FactorAttr::get(context, ::tpc::SymExpr(1)));
    SmallVector<StringAttr> product;
    if (placement && placement->index == factor)
      product = placement->axes;
    splits.push_back(DimAttr::get(context, factors, product));
  }
  return splits;
}

SmallVector<DimAttr> PlannedDists::getSplits(Operation *op) const {
  return getSplits(op, [&](int cls, unsigned factor) { return state.getAxes(cls, op, factor); });
}

DistAttr PlannedDists::getRequired(Operation *op, unsigned operand,
                                   ArrayRef<DimAttr> splits) const {
  return composeDist(op->getContext(), state.problem.classes.getRule(op).operands[operand], splits);
}

DistAttr PlannedDists::getProduced(OpResult result, ArrayRef<DimAttr> splits) const {
  Operation *op = result.getOwner();
  const ShardingRule &rule = state.problem.classes.getRule(op);
  DistAttr dist = composeDist(op->getContext(), rule.results[result.getResultNumber()], splits);
  if (!dist)
    return dist;
  SmallVector<StringAttr> axes;
  std::optional<ReductionKind> kind;
  for (auto [dim, factor] : llvm::zip(splits, rule.factors))
    if (auto reduction = getReduction(factor.kind); reduction && dim.isSharded()) {
      kind = reduction;
      llvm::append_range(axes, dim.getAllAxes());
    }
  return kind ? dist.withPartial(PartialAttr::get(op->getContext(), *kind, axes)) : dist;
}

DistAttr PlannedDists::getRequired(OpOperand &use) const {
  Operation *user = use.getOwner();
  if (isa<ShardingRuleOpInterface>(user))
    return getRequired(user, use.getOperandNumber(), getSplits(user));
  if (auto call = dyn_cast<func::CallOp>(user))
    if (auto callee = state.problem.module.lookupSymbol<func::FuncOp>(call.getCallee());
        callee && !callee.isExternal())
      return getProduced(callee.getArgument(use.getOperandNumber()));
  return {};
}

DistAttr PlannedDists::getProduced(Value value) const {
  MLIRContext *context = value.getContext();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (!function || function.getName() == "main")
      return getDist(value); // inputs are replicated
    SmallVector<DimAttr> dims;
    for (unsigned d = 0; d < cast<RankedTensorType>(value.getType()).getRank(); ++d)
      dims.push_back(state.getDim(state.problem.classes.getClasses(value, d), argument, d));
    return DistAttr::get(context, dims);
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = state.problem.module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal())
      return getDist(value);
    // Functions do not return partial sums.
    Value returned = callee.front().getTerminator()->getOperand(result.getResultNumber());
    return getArrival(returned);
  }
  // Constants are replicated, and slicing one costs nothing.
  if (!isa<ShardingRuleOpInterface>(op) || isa<ConstantOp, SizeOp>(op))
    return getDist(value);
  DistAttr produced = getProduced(result, getSplits(op));
  return produced ? produced : getDist(value);
}

DistAttr PlannedDists::getStored(Value value) const {
  ArrayRef<PartitionState::StoredSplit> storedSplits = state.getStored(value);
  if (storedSplits.empty() || isa<BlockArgument>(value))
    return {};
  Operation *op = value.getDefiningOp();
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return {};
  MLIRContext *context = op->getContext();
  auto isStored = [&](StringAttr axis) {
    return llvm::any_of(
        storedSplits, [&](const PartitionState::StoredSplit &split) { return split.axis == axis; });
  };
  const ShardingRule &rule = state.problem.classes.getRule(op);
  const PartitionState::Placement *placement = state.getPlacement(op);
  SmallVector<DimAttr> dims;
  for (auto [d, size] : llvm::enumerate(getSizes(value))) {
    SmallVector<FactorAttr> factors;
    for (int cls : state.problem.classes.getClasses(value, d)) {
      // Keeps the remaining axes over which the op itself splits this class.
      constexpr int none = std::numeric_limits<int>::max();
      SmallVector<StringAttr> axes = state.getAxes(cls, op, none);
      llvm::erase_if(axes, isStored);
      for (const PartitionState::StoredSplit &split : storedSplits)
        if (split.dim == d && split.cls == cls)
          axes.push_back(split.axis);
      factors.push_back(FactorAttr::get(context, state.problem.classes.getSize(cls), axes));
    }
    SmallVector<StringAttr> product;
    if (placement && llvm::none_of(placement->axes, isStored) &&
        llvm::is_contained(rule.results[0][d], int(placement->index)))
      product = placement->axes;
    dims.push_back(factors.empty() ? DimAttr::get(context, size)
                                   : DimAttr::get(context, factors, product));
  }
  return DistAttr::get(context, dims);
}

std::optional<SmallVector<DimAttr>> PlannedDists::splitByClasses(DimAttr dim,
                                                                 ArrayRef<int> list) const {
  SmallVector<::tpc::SymExpr> sizes;
  for (int cls : list)
    sizes.push_back(state.problem.classes.getSize(cls));
  return splitDim(dim, sizes);
}

DistAttr PlannedDists::getArrival(Value value, DistAttr produced) const {
  if (DistAttr stored = getStored(value))
    return stored;
  if (!produced.getPartial())
    return produced;
  // A partial sum is reduce-scattered into a dimension that other ops split over the same axes.
  MLIRContext *context = value.getContext();
  DistAttr arrival = produced.withPartial({});
  for (StringAttr axis : produced.getPartialAxes())
    for (unsigned d = 0; d < produced.getDims().size() && !arrival.usesAxis(axis); ++d) {
      FactorClasses::Classes list = state.problem.classes.getClasses(value, d);
      if (!state.hasAxis(list, axis) || !produced.getDims()[d].getAxes().empty())
        continue;
      auto parts = splitByClasses(arrival.getDims()[d], list);
      if (!parts)
        continue;
      for (auto [part, cls] : llvm::zip(*parts, list)) {
        if (!state.hasAxis({cls}, axis))
          continue;
        SmallVector<StringAttr> axes = part.getAllAxes();
        axes.push_back(axis);
        part = DimAttr::get(context,
                            FactorAttr::get(context, state.problem.classes.getSize(cls), axes), {});
        arrival = withDim(arrival, d, joinDims(context, *parts));
        break;
      }
    }
  return arrival;
}

DistAttr mlir::tpc::keepAxes(DistAttr dist, function_ref<bool(StringAttr)> keeps) {
  MLIRContext *context = dist.getContext();
  auto filter = [&](ArrayRef<StringAttr> axes) { return llvm::filter_to_vector<2>(axes, keeps); };
  SmallVector<DimAttr> dims;
  for (DimAttr dim : dist.getDims()) {
    SmallVector<FactorAttr> factors;
    for (FactorAttr factor : dim.getFactors())
      factors.push_back(FactorAttr::get(context, factor.getExpr(), filter(factor.getAxes())));
    dims.push_back(DimAttr::get(context, factors, filter(dim.getAxes())));
  }
  DistAttr result = DistAttr::get(context, dims);
  SmallVector<StringAttr, 2> partial = filter(dist.getPartialAxes());
  if (partial.empty())
    return result;
  return result.withPartial(PartialAttr::get(context, dist.getPartial().getKind(), partial));
}

//===----------------------------------------------------------------------===//
// Collectives between two distributions
//===----------------------------------------------------------------------===//

const std::optional<ReshardPath> &PlannedDists::getPath(DistAttr from, DistAttr to) {
  auto [it, isNew] = paths.try_emplace({from, to});
  if (isNew)
    it->second = planner.find(from, to, [](ReshardStep::Kind kind, StringAttr axis, auto...) {
      return isPossible(kind, axis);
    });
  return it->second;
}

double PlannedDists::getSeconds(Value value, DistAttr from, DistAttr to) {
  const std::optional<ReshardPath> &path = getPath(from, to);
  if (!path)
    return std::numeric_limits<double>::infinity();
  double seconds = 0;
  DistAttr before = from;
  for (const ReshardStep &step : path->steps) {
    seconds += planner.getSeconds(step, before, double(getElementBytes(value)), links);
    before = step.result;
  }
  return seconds;
}
