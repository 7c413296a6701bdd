//===- QuantizedOps.cpp - Ops on quantized weights ------------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/Quantized.h"

using namespace mlir;
using namespace mlir::tpc;

#define GET_OP_CLASSES
#include "tpc/Dialect/QuantizedOps.cpp.inc"

bool DequantizeOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) {
  return compatibleTypes(a, b);
}

LogicalResult DequantizeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                             Adaptor adaptor, SmallVectorImpl<Type> &types) {
  int64_t bits = adaptor.getBits();
  if (bits != 2 && bits != 4 && bits != 8)
    return inferError(loc, "dequantize: " + Twine(bits) + " bits; must be 2, 4 or 8");
  Sizes sizes = getSizes(adaptor.getPacked());
  sizes.push_back(SymExpr(8 / bits));
  for (Value v : {adaptor.getScale(), adaptor.getZero()}) {
    if (!v)
      continue;
    auto both = broadcastSizes(getSizes(v), sizes);
    if (failed(both) || *both != sizes)
      return inferError(loc, "dequantize: " + describe(getSizes(v)) + " does not broadcast to " +
                                 describe(sizes));
  }
  types.push_back(makeTensorType(elementTypeOf(adaptor.getScale()), sizes));
  return success();
}

ShardingRule DequantizeOp::getShardingRule() {
  ShardingRule rule;
  Sizes sizes = getSizes(getResult());
  ShardingRule::Dims dims = addDims(rule, sizes);
  rule.factors[dims.back()[0]].kind = FactorKind::Unsplittable;
  rule.operands.push_back(ShardingRule::Dims(ArrayRef(dims).drop_back()));
  for (Value v : getOperands().drop_front())
    rule.operands.push_back(broadcastDims(getSizes(v), sizes, dims));
  rule.results.push_back(dims);
  return rule;
}

LogicalResult DequantizeOp::verify() {
  if (Value zero = getZero()) {
    Type element = elementTypeOf(zero);
    if (element != elementTypeOf(getPacked()) && element != elementTypeOf(getScale()))
      return emitOpError() << "has zero points of " << element << "; must be "
                           << elementTypeOf(getPacked()) << " or " << elementTypeOf(getScale());
    if (getZeroPoint() != 0)
      return emitOpError() << "has both zero points and the zero point " << int64_t(getZeroPoint());
  }
  if (int64_t zero = getZeroPoint(); zero < -128 || zero > 255)
    return emitOpError() << "has the zero point " << zero << "; must be -128 to 255";
  return success();
}
