//===- Constants.cpp - Small constants in model passes --------------------===//

#include "Constants.h"
#include "Movement.h"
#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

bool mlir::tpc::isConstantVector(Value v, const SymExpr &n) {
  SmallVector<SymExpr> sizes = getSizes(v);
  if (sizes.empty() || sizes.back() != n || product(sizes) != n)
    return false;
  Value base = Movement::of(v).base;
  return base.getDefiningOp<ParameterOp>() || base.getDefiningOp<ConstantOp>();
}

Value mlir::tpc::createScalar(OpBuilder &builder, Location loc, Type element, double number) {
  auto type = RankedTensorType::get({}, element);
  Attribute value = isa<FloatType>(element)
                        ? (Attribute)builder.getFloatAttr(element, roundTo(element, number))
                        : (Attribute)builder.getIntegerAttr(element, (int64_t)number);
  return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, value));
}

Value mlir::tpc::createSplat(OpBuilder &builder, Location loc, RankedTensorType type,
                             double number) {
  return createExpand(builder, loc, createScalar(builder, loc, type.getElementType(), number),
                      getSizes(type));
}
