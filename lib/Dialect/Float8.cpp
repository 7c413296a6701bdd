//===- Float8.cpp - Conversions of 8-bit floats ---------------------------===//

#include "tpc/Dialect/Float8.h"

#include "tpc/Dialect/Dist.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Creates element-wise ops on f32.
struct Builder32 {
  OpBuilder &b;
  Location loc;

  Value number(double value) {
    auto type = RankedTensorType::get({}, b.getF32Type());
    return ConstantOp::create(b, loc, type,
                              DenseElementsAttr::get(type, static_cast<float>(value)));
  }
  Value isAtLeast(Value x, double bound) {
    return CmpOp::create(b, loc, Predicate::GE, x, number(bound));
  }
  Value select(Value condition, Value a, Value other) {
    return SelectOp::create(b, loc, condition, a, other);
  }
  Value mul(Value x, Value y) { return MulOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(b, loc, x, y); }
};
} // namespace

Value mlir::tpc::createRoundToFloat8(OpBuilder &builder, Location loc, Value x) {
  Builder32 b{builder, loc};
  x = MinOp::create(builder, loc, x, b.number(kLargestFloat8));
  x = MaxOp::create(builder, loc, x, b.number(-kLargestFloat8));
  Value magnitude = AbsOp::create(builder, loc, x), step = b.number(std::ldexp(1, -9));
  for (int exponent = -5; exponent <= 8; ++exponent)
    step = b.select(b.isAtLeast(magnitude, std::ldexp(1, exponent)),
                    b.number(std::ldexp(1, exponent - 3)), step);
  // The step is a power of two, so that only the rounding is inexact.
  Value steps = RoundOp::create(builder, loc, DivOp::create(builder, loc, x, step));
  return b.mul(steps, step);
}

Value mlir::tpc::createDecodeFloat8(OpBuilder &builder, Location loc, Value bytes) {
  Builder32 b{builder, loc};
  Value all =
      CastOp::create(builder, loc, makeTensorType(builder.getF32Type(), getSizes(bytes)), bytes);
  Value negative = b.isAtLeast(all, 128);
  Value low = b.sub(all, b.select(negative, b.number(128), b.number(0)));
  Value exponent = FloorOp::create(builder, loc, b.mul(low, b.number(0.125)));
  Value fraction = b.sub(low, b.mul(exponent, b.number(8)));
  // 2^(exponent - 10), bit by bit of the exponent.
  Value power = b.number(std::ldexp(1, -10)), rest = exponent;
  for (int bit : {8, 4, 2, 1}) {
    Value has = b.isAtLeast(rest, bit);
    power = b.mul(power, b.select(has, b.number(std::ldexp(1, bit)), b.number(1)));
    rest = b.sub(rest, b.select(has, b.number(bit), b.number(0)));
  }
  Value normal = b.mul(AddOp::create(builder, loc, fraction, b.number(8)), power);
  Value subnormal = b.mul(fraction, b.number(std::ldexp(1, -9)));
  Value number = b.select(b.isAtLeast(exponent, 1), normal, subnormal);
  return b.select(negative, NegOp::create(builder, loc, number), number);
}
