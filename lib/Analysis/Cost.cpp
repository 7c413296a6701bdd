//===- Cost.cpp - Cost of ops on one rank ---------------------------------===//

#include "CostOp.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;

Cost &Cost::operator+=(const Cost &o) {
  seconds += o.seconds;
  flops += o.flops;
  traffic += o.traffic;
  communicated += o.communicated;
  weightBytes += o.weightBytes;
  return *this;
}

/// Whether all uses of a value, including those in callees, are the RHS of a matmul.
static bool isRightSide(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (auto call = dyn_cast<func::CallOp>(use.getOwner())) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      return callee && !callee.isExternal() &&
             isRightSide(callee.getArgument(use.getOperandNumber()));
    }
    return isa<MatmulOp>(use.getOwner()) && use.getOperandNumber() == 1;
  });
}

static bool isTransposeOf(ParameterOp a, ParameterOp b) {
  ViewAttr x = a.getViewOrDense(), y = b.getViewOrDense();
  ArrayRef<DimAttr> p = getDist(a.getResult()).getDims(), q = getDist(b.getResult()).getDims();
  return a.getWeightAttr() == b.getWeightAttr() && p.size() == 2 && q.size() == 2 &&
         x.getOffset() == y.getOffset() && x.getDims()[0] == y.getDims()[1] &&
         x.getDims()[1] == y.getDims()[0] && p[0] == q[1] && p[1] == q[0];
}

SmallVector<ParameterOp> mlir::tpc::getDistinctParameters(ArrayRef<Operation *> parameters) {
  SmallVector<ParameterOp> distinct, resident;
  DenseSet<std::tuple<Attribute, Attribute, Type>> seen;
  for (Operation *op : parameters) {
    auto parameter = cast<ParameterOp>(op);
    if (seen.insert({parameter.getWeightAttr(), parameter.getViewOrDense(), parameter.getType()})
            .second)
      distinct.push_back(parameter);
  }
  DenseMap<Attribute, SmallVector<ParameterOp, 1>> ofWeight;
  for (ParameterOp parameter : distinct)
    ofWeight[parameter.getWeightAttr()].push_back(parameter);
  for (ParameterOp parameter : distinct) {
    ArrayRef<ParameterOp> others = ofWeight[parameter.getWeightAttr()];
    bool shared = others.size() > 1 && isRightSide(parameter.getResult()) &&
                  llvm::any_of(others, [&](ParameterOp other) {
                    return other != parameter && !isRightSide(other.getResult()) &&
                           isTransposeOf(parameter, other);
                  });
    if (!shared)
      resident.push_back(parameter);
  }
  return resident;
}

CostModel::CostModel(ModuleOp module)
    : module(module), grid(MeshAttr::lookup(module)), links(module),
      symbols(getNominalSymbols(module)) {
  if (!grid)
    grid = MeshAttr::get(module.getContext(), {}, {}, 1);
}

double CostModel::getBytes(Type type) const {
  return estimateLocalBytes(type, grid, coordinates, symbols);
}

/// Returns the number of points of the rule's iteration space on this rank. If a factor occurs in
/// only one tensor and is not reduced (operands of a concatenation, the operand of a slice), the
/// iteration space is not the product of all factors. In this case, returns the number of elements
/// of the largest tensor.
double CostModel::getPoints(ShardingRuleOpInterface op) const {
  ShardingRule rule = op.getShardingRule();
  SmallVector<double> sizes;
  for (const ShardingRule::Factor &factor : rule.factors)
    sizes.push_back(double(evaluateOr1(factor.size, symbols)));
  // Replaces global sizes of factors by local sizes if the dimension's split can be assigned to
  // factors.
  auto localize = [&](Value value, const ShardingRule::Dims &dims) {
    for (auto [dim, factors] : llvm::zip(getDist(value).getDims(), dims)) {
      SmallVector<::tpc::SymExpr> parts;
      for (int factor : factors)
        parts.push_back(rule.factors[factor].size);
      if (parts.empty())
        continue;
      auto split = splitDim(dim, parts);
      if (!split)
        continue;
      for (auto [factor, part] : llvm::zip(factors, *split))
        if (auto local = part.getLocalSize(grid, coordinates, symbols))
          sizes[factor] = std::min(sizes[factor], double(*local));
    }
  };
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    localize(value, dims);
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    localize(value, dims);
  SmallVector<unsigned> tensors(sizes.size());
  double points = 1, largest = 0;
  auto count = [&](ArrayRef<ShardingRule::Dims> values) {
    for (const ShardingRule::Dims &dims : values) {
      double elements = 1;
      for (const auto &factors : dims)
        for (int factor : factors) {
          elements *= sizes[factor];
          ++tensors[factor];
        }
      largest = std::max(largest, elements);
    }
  };
  count(rule.operands);
  count(rule.results);
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (tensors[i] < 2 && !getReduction(rule.factors[i].kind))
      return largest;
    points *= size;
  }
  return points;
}

LogicalResult CostModel::check() const {
  WalkResult result = ModuleOp(module).walk([](Operation *op) {
    if (isa<CostOpInterface>(op))
      return WalkResult::advance();
    op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                    << ") has no cost model";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

Cost CostModel::getCost(Operation *op) { return cast<CostOpInterface>(op).getCost(*this); }

Cost CostModel::getCallCost(func::CallOp call) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal())
    return {};
  auto [it, inserted] = functions.try_emplace(callee);
  if (!inserted)
    return it->second;
  Cost cost;
  for (Operation &inner : callee.front())
    cost += getCost(&inner);
  return functions[callee] = cost;
}

Cost CostModel::getCollectiveCost(CollectiveOpInterface op) const {
  Cost cost;
  ::tpc::Transfer transfer = ::tpc::Transfer::AllReduce;
  ::tpc::parseTransfer(std::string_view(op->getName().stripDialect()), transfer);
  SmallVector<StringAttr> axes = llvm::to_vector(op.getAxesAttr().getAsRange<StringAttr>());
  double whole =
      std::max(getBytes(op->getOperand(0).getType()), getBytes(op->getResult(0).getType()));
  if (op.sendsOnlyMissing())
    whole = double(op.getMaxMemberBytes(grid, coordinates, symbols).value_or(0));
  cost.communicated = ::tpc::getSentBytes(transfer, links.getGroupSize(axes), whole);
  cost.seconds = links.getSeconds(transfer, axes, whole);
  return cost;
}

Cost CostModel::getComputeCost(ShardingRuleOpInterface op, ValueRange read, double fraction) const {
  Cost cost;
  cost.flops = fraction * getPoints(op) * op.getFlopsPerPoint();
  for (Value result : op->getResults())
    cost.traffic += getBytes(result.getType());
  for (Value operand : read)
    cost.traffic += getBytes(operand.getType());
  cost.seconds = std::max(cost.flops / flopsPerSecond, cost.traffic / memoryBytesPerSecond);
  return cost;
}

double CostModel::getSendSeconds(Type type) const {
  auto pp = StringAttr::get(type.getContext(), kPipelineAxis);
  return links.getSeconds(::tpc::Transfer::Send, pp, getBytes(type));
}
