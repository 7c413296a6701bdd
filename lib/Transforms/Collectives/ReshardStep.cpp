//===- ReshardStep.cpp - Reshard steps as ops -----------------------------===//

#include "tpc/Transforms/Collectives/Reshard.h"

using namespace mlir;
using namespace mlir::tpc;

/// Op names, in the order of the kinds.
static constexpr StringRef stepNames[] = {
    LocalSliceOp::getOperationName(),    AllReduceOp::getOperationName(),
    ReduceScatterOp::getOperationName(), AllGatherOp::getOperationName(),
    AllToAllOp::getOperationName(),      CollectivePermuteOp::getOperationName(),
    ExchangeOp::getOperationName()};

StringRef mlir::tpc::stringify(ReshardStep::Kind kind) { return stepNames[kind].split('.').second; }

std::optional<ReshardStep::Kind> mlir::tpc::getStepKind(Operation *op) {
  if (!op)
    return std::nullopt;
  const StringRef *name = llvm::find(stepNames, op->getName().getStringRef());
  // A shift changes the value, so it is not a reshard step.
  auto permute = dyn_cast<CollectivePermuteOp>(op);
  if (name == std::end(stepNames) || (permute && permute.getFrom()))
    return std::nullopt;
  return ReshardStep::Kind(name - std::begin(stepNames));
}

SmallVector<StringAttr, 2> mlir::tpc::getAxes(Operation *op) {
  return llvm::to_vector<2>(op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>());
}

int64_t mlir::tpc::getDim(Operation *op) {
  auto dim = op->getAttrOfType<IntegerAttr>("dim");
  return dim ? dim.getInt() : -1;
}

DistAttr mlir::tpc::withDim(DistAttr dist, int64_t dim, DimAttr attr) {
  SmallVector<DimAttr> dims(dist.getDims());
  dims[dim] = attr;
  return dist.withDims(dims);
}

std::string mlir::tpc::printSize(DistAttr dist, int64_t dim) {
  return dim < 0 ? "" : dist.getDims()[dim].getExpr().str();
}

std::optional<Permutation> mlir::tpc::getPermutation(ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  auto *factor = llvm::find_if(rule.factors, [](const ShardingRule::Factor &f) {
    return f.kind == FactorKind::Permuted && f.run;
  });
  if (factor == rule.factors.end())
    return std::nullopt;
  ShardingRule::Dim alone = {int(factor - rule.factors.begin())};
  assert(rule.results.size() == 1 && rule.operands.size() == 1 &&
         "a reshard has one operand and one result");
  int64_t d = llvm::find(rule.results[0], alone) - rule.results[0].begin();
  DimAttr dim = getDist(op->getResult(0)).getDims()[d];
  auto runs = factor->run->isConstant(0) ? std::nullopt : factor->size.divideExact(*factor->run);
  auto parts = runs ? splitDim(dim, {*runs, *factor->run}) : std::nullopt;
  bool isLocal = parts && !(*parts)[1].isSharded();
  return Permutation{d, *factor->run, isLocal,
                     isLocal ? std::nullopt : BlockMove::get(dim, dim, factor->run)};
}

DistAttr mlir::tpc::composeDist(MLIRContext *context, const ShardingRule::Dims &dims,
                                ArrayRef<DimAttr> splits) {
  SmallVector<DimAttr> list;
  for (const ShardingRule::Dim &dim : dims) {
    if (dim.empty()) {
      list.push_back(DimAttr::get(context, ::tpc::SymExpr(1)));
      continue;
    }
    SmallVector<DimAttr> parts;
    for (int factor : dim) {
      if (dim.size() > 1 && !splits[factor].getAxes().empty())
        return {};
      parts.push_back(splits[factor]);
    }
    list.push_back(joinDims(context, parts));
  }
  return DistAttr::get(context, list);
}

Value mlir::tpc::emitReshardStep(OpBuilder &builder, Location loc, Value value,
                                 const ReshardStep &step, MeshAttr grid) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  Type type = makeTensorType(element, step.result.withLocal(bool(grid)), grid);
  ArrayAttr axes = builder.getArrayAttr(SmallVector<Attribute>(step.axes.begin(), step.axes.end()));
  switch (step.kind) {
  case ReshardStep::Slice:
    return LocalSliceOp::create(builder, loc, type, value, axes, step.dim);
  case ReshardStep::AllReduce:
    return AllReduceOp::create(builder, loc, type, value, axes);
  case ReshardStep::ReduceScatter:
    return ReduceScatterOp::create(builder, loc, type, value, axes, step.dim);
  case ReshardStep::AllGather:
    return AllGatherOp::create(builder, loc, type, value, axes, step.dim);
  case ReshardStep::AllToAll:
    return AllToAllOp::create(builder, loc, type, value, axes, step.dim, step.toDim);
  case ReshardStep::Permute:
    return CollectivePermuteOp::create(builder, loc, type, value, axes, step.dim, SymExprAttr(),
                                       SymExprAttr());
  case ReshardStep::Exchange:
    return ExchangeOp::create(builder, loc, type, value, axes);
  }
  llvm_unreachable("all kinds are handled");
}
