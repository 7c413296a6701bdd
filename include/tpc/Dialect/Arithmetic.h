//===- Arithmetic.h - Emission of formulas as arith and math ops *- C++ -*-===//

#ifndef TPC_DIALECT_ARITHMETIC_H
#define TPC_DIALECT_ARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tpc/functions.h"

namespace mlir::tpc {

/// Arithmetic for the formula templates of tpc/functions.h that emits ops. `type` is the float or
/// vector type of all values.
class Arithmetic {
public:
  Arithmetic(OpBuilder &builder, Location loc, Type type)
      : builder(builder), loc(loc), type(type) {}

  Value number(double x) const { return constant(FloatAttr::get(getElementTypeOrSelf(type), x)); }
  Value neg(Value x) const { return arith::NegFOp::create(builder, loc, x); }
  Value add(Value x, Value y) const { return arith::AddFOp::create(builder, loc, x, y); }
  Value sub(Value x, Value y) const { return arith::SubFOp::create(builder, loc, x, y); }
  Value mul(Value x, Value y) const { return arith::MulFOp::create(builder, loc, x, y); }
  Value div(Value x, Value y) const { return arith::DivFOp::create(builder, loc, x, y); }
  Value fma(Value x, Value y, Value z) const { return math::FmaOp::create(builder, loc, x, y, z); }
  Value less(Value x, Value y) const {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, x, y);
  }
  Value select(Value condition, Value x, Value y) const {
    return arith::SelectOp::create(builder, loc, condition, x, y);
  }
  Value abs(Value x) const { return math::AbsFOp::create(builder, loc, x); }
  Value withSignOf(Value magnitude, Value x) const {
    return math::CopySignOp::create(builder, loc, magnitude, x);
  }
  Value exp(Value x) const { return math::ExpOp::create(builder, loc, x); }
  Value erf(Value x) const { return math::ErfOp::create(builder, loc, x); }

  /// Returns 2^n in f32, where x = n + kTwoTo: shifts the low bits of x to the exponent.
  Value twoTo(Value x) const {
    Type i32 = builder.getI32Type();
    Type bits = isa<ShapedType>(type) ? cast<ShapedType>(type).clone(i32) : i32;
    Value digits = constant(IntegerAttr::get(i32, 23), bits);
    Value exponent = arith::ShLIOp::create(builder, loc,
                                           arith::BitcastOp::create(builder, loc, bits, x), digits);
    return arith::BitcastOp::create(builder, loc, type, exponent);
  }

private:
  Value constant(TypedAttr value, Type all = {}) const {
    if (auto shaped = dyn_cast<ShapedType>(all ? all : type))
      value = SplatElementsAttr::get(shaped, Attribute(value));
    return arith::ConstantOp::create(builder, loc, value);
  }

  OpBuilder &builder;
  Location loc;
  Type type;
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_ARITHMETIC_H
