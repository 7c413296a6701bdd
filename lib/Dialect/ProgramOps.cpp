//===- ProgramOps.cpp - Weights and constants -----------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::tpc;

//===----------------------------------------------------------------------===//
// Weight
//===----------------------------------------------------------------------===//

LogicalResult WeightOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape() || type.getEncoding())
    return emitOpError() << "type must be a static tensor, not " << getType();
  if ((int64_t)getOffset() < 0)
    return emitOpError() << "offset must not be negative, but is " << (int64_t)getOffset();
  int64_t elements = 1;
  for (int64_t size : type.getShape())
    if (__builtin_mul_overflow(elements, size, &elements))
      return emitOpError() << "number of elements of " << type << " does not fit in 64 bits";
  return success();
}

//===----------------------------------------------------------------------===//
// Parameter
//===----------------------------------------------------------------------===//

WeightOp ParameterOp::getWeightOp() {
  return SymbolTable::lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
}

ViewAttr ParameterOp::getViewOrDense() {
  if (auto view = getViewAttr())
    return view;
  SmallVector<int64_t> shape; // without a view, that of the weight
  for (const SymExpr &size : getSizes(getResult()))
    shape.push_back(size.asConstant().value_or(0));
  return ViewAttr::getDense(getContext(), shape);
}

ShardingRule ParameterOp::getShardingRule() {
  ShardingRule rule;
  rule.results = {addDims(rule, getSizes(getResult()))};
  return rule;
}

LogicalResult ParameterOp::verify() {
  for (const SymExpr &size : getSizes(getResult()))
    if (!size.isConstant())
      return emitOpError("must have static sizes");
  return success();
}

LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &table) {
  auto weight = table.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight)
    return emitOpError() << "there is no tpc.weight " << getWeightAttr();
  auto type = cast<RankedTensorType>(weight.getType());
  if (type.getElementType() != elementTypeOf(getResult()))
    return emitOpError() << "must have the element type of its weight, " << type;
  SmallVector<int64_t> shape(type.getShape());
  int64_t last = type.getNumElements() - 1, first = 0;
  if (ViewAttr view = getViewAttr()) {
    shape = view.getShape();
    int64_t low = view.getOffset(), high = low;
    for (unsigned d = 0; d < view.getDims().size(); ++d)
      for (StridedFactorAttr f : view.getFactors(d)) {
        int64_t reach;
        if (__builtin_mul_overflow(f.getSize() - 1, f.getStride(), &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
          return emitOpError("view exceeds 64 bits");
      }
    bool empty = llvm::is_contained(shape, 0);
    if (!empty && (low < first || high > last))
      return emitOpError() << "view has elements " << low << " to " << high
                           << ", but the weight has only " << last + 1;
  }
  Sizes sizes(shape.begin(), shape.end());
  if (sizes != getSizes(getResult()))
    return emitOpError() << "result has sizes " << describe(getSizes(getResult()))
                         << ", but the weight or its view has " << describe(sizes);
  return success();
}

//===----------------------------------------------------------------------===//
// Constant
//===----------------------------------------------------------------------===//

ShardingRule ConstantOp::getShardingRule() {
  ShardingRule rule;
  rule.results = {addDims(rule, getSizes(getResult()))};
  return rule;
}

LogicalResult ConstantOp::verify() {
  auto type = cast<RankedTensorType>(getValue().getType());
  auto result = getResult().getType();
  if (type.getElementType() != result.getElementType() ||
      Sizes(type.getShape().begin(), type.getShape().end()) != getSizes(result))
    return emitOpError() << "value and result must have the same type, but have " << type << " and "
                         << result;
  DistAttr dist = getDist(getResult());
  if (dist.isSharded() || dist.getPartial())
    return emitOpError("must be replicated; take a tpc.local_slice of it");
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
