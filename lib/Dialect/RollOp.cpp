//===- RollOp.cpp - Cyclic shifts -----------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::tpc;

LogicalResult mlir::tpc::checkRun(Operation *op, Value v, int64_t dim, const SymExpr &from,
                                  const SymExpr &every) {
  if (failed(checkSize(op, from, "from")) || failed(checkSize(op, every, "every")))
    return failure();
  SymExpr size = getSizes(v)[dim];
  if (every.isConstant(0) || !size.divideExact(every))
    return op->emitOpError() << "'every' is " << every.str()
                             << ", but must divide the size of dimension " << dim << ", "
                             << size.str();
  return success();
}

LogicalResult RollOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  types.push_back(
      makeTensorType(elementTypeOf(adaptor.getOperand()), getSizes(adaptor.getOperand())));
  return success();
}
bool RollOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }

LogicalResult RollOp::verify() {
  if (failed(checkDim(*this, getOperand(), getDim(), "dim")))
    return failure();
  return checkRun(*this, getOperand(), getDim(), getFrom(), getEvery());
}

ShardingRule RollOp::getShardingRule() {
  ShardingRule rule;
  Sizes sizes = getSizes(getResult());
  ShardingRule::Dims dims = addDims(rule, sizes);
  SymExpr every = getEvery();
  int factor = dims[getDim()].front();
  rule.factors[factor].kind = FactorKind::Permuted;
  rule.factors[factor].run = every;
  if (getDist(getResult()).getLocal()) {
    // If the dimension has several runs, the factor before them is parallel.
    auto runs = sizes[getDim()].divideExact(every);
    rule.factors[factor].kind = FactorKind::Unsplittable;
    if (runs && !runs->isConstant(1)) {
      rule.factors[factor].size = every;
      dims[getDim()] = {rule.addFactor(*runs), factor};
    }
  }
  rule.operands.push_back(dims);
  rule.results.push_back(dims);
  rule.linear.push_back({{0}, true});
  return rule;
}

Value RollOp::buildPermute(OpBuilder &builder, ArrayAttr axes) {
  return CollectivePermuteOp::create(builder, getLoc(), getType(), getOperand(), axes, getDimAttr(),
                                     getFromAttr(), getEveryAttr());
}

OpFoldResult RollOp::fold(FoldAdaptor) {
  if (getOperand().getType() != getType())
    return {};
  SymExpr from = getFrom(), every = getEvery();
  auto first = from.asConstant(), run = every.asConstant();
  if (from == every || first == 0 || run == 1 || (first && run && *run > 0 && *first % *run == 0))
    return getOperand();
  // Two shifts become one shift by the sum.
  auto producer = getOperand().getDefiningOp<RollOp>();
  if (!producer || producer.getDim() != getDim() || producer.getEvery() != getEvery() ||
      producer.getOperand().getType() != getType())
    return {};
  SymExpr sum = producer.getFrom() + from;
  if (sum.isOverflow())
    return {};
  setFrom(sum);
  getOperandMutable().assign(producer.getOperand());
  return getResult();
}
