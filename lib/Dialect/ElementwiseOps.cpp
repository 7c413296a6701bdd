//===- ElementwiseOps.cpp - One element at a time -------------------------===//

#include "OpHelpers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;

//===----------------------------------------------------------------------===//
// Types and rules: all element-wise ops are alike
//===----------------------------------------------------------------------===//

static LogicalResult inferElementwise(std::optional<Location> loc, ValueRange operands,
                                      Type element, SmallVectorImpl<Type> &types) {
  Sizes sizes = getSizes(operands[0]);
  for (Value v : operands.drop_front()) {
    auto both = broadcastSizes(sizes, getSizes(v));
    if (failed(both))
      return inferError(loc, "shapes " + describe(sizes) + " and " + describe(getSizes(v)) +
                                 " do not broadcast");
    sizes = *both;
  }
  types.push_back(makeTensorType(element, sizes));
  return success();
}

static ShardingRule elementwiseRule(Operation *op, ArrayRef<ShardingRule::Linear> linear) {
  ShardingRule rule;
  Sizes sizes = getSizes(op->getResult(0));
  ShardingRule::Dims dims = addDims(rule, sizes);
  for (Value v : op->getOperands())
    rule.operands.push_back(broadcastDims(getSizes(v), sizes, dims));
  rule.results.push_back(dims);
  rule.linear.assign(linear.begin(), linear.end());
  return rule;
}

// Operand types must agree where they are all of one kind.
static LogicalResult sameElements(std::optional<Location> loc, Value a, Value b) {
  if (elementType(a) == elementType(b))
    return success();
  std::string text;
  llvm::raw_string_ostream(text) << "element types " << elementType(a) << " and " << elementType(b)
                                 << " differ";
  return inferError(loc, text);
}

#define TPC_ELEMENTWISE(OP, ELEMENT, SAME, ...)                                                    \
  LogicalResult OP::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,            \
                                     Adaptor adaptor, SmallVectorImpl<Type> &types) {              \
    ValueRange operands = adaptor.getOperands();                                                   \
    if (SAME && failed(sameElements(loc, operands[operands.size() - 2], operands.back())))         \
      return failure();                                                                            \
    return inferElementwise(loc, operands, ELEMENT, types);                                        \
  }                                                                                                \
  bool OP::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }     \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this, {__VA_ARGS__}); }

#define TPC_FIRST elementType(operands[0])
#define TPC_LAST elementType(operands.back())
#define TPC_I1 IntegerType::get(context, 1)
#define TPC_BOTH {{0, 1}, false}

// Op, element type of the result, last two operands alike, linear operands.
TPC_ELEMENTWISE(NegOp, TPC_FIRST, false, {{0}, false})
TPC_ELEMENTWISE(AbsOp, TPC_FIRST, false)
TPC_ELEMENTWISE(ExpOp, TPC_FIRST, false)
TPC_ELEMENTWISE(LogOp, TPC_FIRST, false)
TPC_ELEMENTWISE(SqrtOp, TPC_FIRST, false)
TPC_ELEMENTWISE(RsqrtOp, TPC_FIRST, false)
TPC_ELEMENTWISE(ReciprocalOp, TPC_FIRST, false)
TPC_ELEMENTWISE(TanhOp, TPC_FIRST, false)
TPC_ELEMENTWISE(ErfOp, TPC_FIRST, false)
TPC_ELEMENTWISE(SigmoidOp, TPC_FIRST, false)
TPC_ELEMENTWISE(ReluOp, TPC_FIRST, false)
TPC_ELEMENTWISE(SinOp, TPC_FIRST, false)
TPC_ELEMENTWISE(CosOp, TPC_FIRST, false)
TPC_ELEMENTWISE(FloorOp, TPC_FIRST, false)
TPC_ELEMENTWISE(CeilOp, TPC_FIRST, false)
TPC_ELEMENTWISE(SiluOp, TPC_FIRST, false)
TPC_ELEMENTWISE(NotOp, TPC_FIRST, false)
TPC_ELEMENTWISE(GeluOp, TPC_FIRST, false)
TPC_ELEMENTWISE(IsNanOp, TPC_I1, false)
TPC_ELEMENTWISE(AddOp, TPC_FIRST, true, TPC_BOTH)
TPC_ELEMENTWISE(SubOp, TPC_FIRST, true, TPC_BOTH)
TPC_ELEMENTWISE(MulOp, TPC_FIRST, true, {{0}, false}, {{1}, false})
TPC_ELEMENTWISE(DivOp, TPC_FIRST, true,
                {isa<FloatType>(elementType(getLhs())) ? SmallVector<int, 2>{0}
                                                       : SmallVector<int, 2>{},
                 false})
TPC_ELEMENTWISE(PowOp, TPC_FIRST, false)
TPC_ELEMENTWISE(MaxOp, TPC_FIRST, true)
TPC_ELEMENTWISE(MinOp, TPC_FIRST, true)
TPC_ELEMENTWISE(ModOp, TPC_FIRST, true)
TPC_ELEMENTWISE(AndOp, TPC_FIRST, true)
TPC_ELEMENTWISE(OrOp, TPC_FIRST, true)
TPC_ELEMENTWISE(XorOp, TPC_FIRST, true)
TPC_ELEMENTWISE(CmpOp, TPC_I1, true)
TPC_ELEMENTWISE(SelectOp, TPC_LAST, true, {{1, 2}, true})

ShardingRule CastOp::getShardingRule() {
  bool floats =
      isa<FloatType>(elementType(getOperand())) && isa<FloatType>(elementType(getResult()));
  if (floats)
    return elementwiseRule(*this, {{{0}, false}});
  return elementwiseRule(*this, {});
}

LogicalResult CastOp::verify() {
  if (getSizes(getOperand()) != getSizes(getResult()))
    return emitOpError() << "changes the shape from " << describe(getSizes(getOperand())) << " to "
                         << describe(getSizes(getResult()));
  return success();
}

//===----------------------------------------------------------------------===//
// Scalar computation
//===----------------------------------------------------------------------===//

static Value constant(OpBuilder &b, Location loc, Type type, double value) {
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, (int64_t)value));
}

static bool isFloat(Value v) { return isa<FloatType>(v.getType()); }

#define TPC_SCALAR(OP) Value OP::buildScalar(OpBuilder &b, Location loc, ValueRange x)

#define TPC_MATH(OP, MATH)                                                                         \
  TPC_SCALAR(OP) { return MATH::create(b, loc, x[0]); }

TPC_MATH(ExpOp, math::ExpOp)
TPC_MATH(LogOp, math::LogOp)
TPC_MATH(SqrtOp, math::SqrtOp)
TPC_MATH(TanhOp, math::TanhOp)
TPC_MATH(ErfOp, math::ErfOp)
TPC_MATH(SinOp, math::SinOp)
TPC_MATH(CosOp, math::CosOp)
TPC_MATH(FloorOp, math::FloorOp)
TPC_MATH(CeilOp, math::CeilOp)

TPC_SCALAR(NegOp) {
  if (isFloat(x[0]))
    return arith::NegFOp::create(b, loc, x[0]);
  return arith::SubIOp::create(b, loc, constant(b, loc, x[0].getType(), 0), x[0]);
}

TPC_SCALAR(AbsOp) {
  if (isFloat(x[0]))
    return math::AbsFOp::create(b, loc, x[0]);
  return math::AbsIOp::create(b, loc, x[0]);
}

TPC_SCALAR(ReciprocalOp) {
  return arith::DivFOp::create(b, loc, constant(b, loc, x[0].getType(), 1), x[0]);
}

TPC_SCALAR(RsqrtOp) {
  Value root = math::SqrtOp::create(b, loc, x[0]);
  return arith::DivFOp::create(b, loc, constant(b, loc, x[0].getType(), 1), root);
}

static Value sigmoid(OpBuilder &b, Location loc, Value x) {
  Value one = constant(b, loc, x.getType(), 1);
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
  return arith::DivFOp::create(b, loc, one, arith::AddFOp::create(b, loc, one, e));
}

TPC_SCALAR(SigmoidOp) { return sigmoid(b, loc, x[0]); }
TPC_SCALAR(SiluOp) { return arith::MulFOp::create(b, loc, x[0], sigmoid(b, loc, x[0])); }
TPC_SCALAR(ReluOp) {
  return arith::MaximumFOp::create(b, loc, x[0], constant(b, loc, x[0].getType(), 0));
}
TPC_SCALAR(NotOp) {
  return arith::XOrIOp::create(b, loc, x[0], constant(b, loc, x[0].getType(), 1));
}
TPC_SCALAR(IsNanOp) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x[0], x[0]); }

TPC_SCALAR(GeluOp) {
  Type type = x[0].getType();
  auto c = [&](double v) { return constant(b, loc, type, v); };
  auto mul = [&](Value l, Value r) -> Value { return arith::MulFOp::create(b, loc, l, r); };
  auto add = [&](Value l, Value r) -> Value { return arith::AddFOp::create(b, loc, l, r); };
  Value v = x[0];
  switch (getApproximate()) {
  case GeluApproximation::Sigmoid:
    return mul(v, sigmoid(b, loc, mul(v, c(1.702))));
  case GeluApproximation::None: {
    Value e = math::ErfOp::create(b, loc, mul(v, c(0.70710678118654752)));
    return mul(mul(v, c(0.5)), add(e, c(1)));
  }
  case GeluApproximation::Tanh: {
    Value cube = mul(mul(mul(v, v), v), c(0.044715));
    Value t = math::TanhOp::create(b, loc, mul(add(v, cube), c(0.79788456080286536)));
    return mul(mul(v, c(0.5)), add(t, c(1)));
  }
  }
  return {};
}

#define TPC_ARITH(OP, FLOAT, INT)                                                                  \
  TPC_SCALAR(OP) {                                                                                 \
    if (isFloat(x[0]))                                                                             \
      return FLOAT::create(b, loc, x[0], x[1]);                                                    \
    return INT::create(b, loc, x[0], x[1]);                                                        \
  }

TPC_ARITH(AddOp, arith::AddFOp, arith::AddIOp)
TPC_ARITH(SubOp, arith::SubFOp, arith::SubIOp)
TPC_ARITH(MulOp, arith::MulFOp, arith::MulIOp)
TPC_ARITH(MaxOp, arith::MaximumFOp, arith::MaxSIOp)
TPC_ARITH(MinOp, arith::MinimumFOp, arith::MinSIOp)

// Integer division by zero is undefined in ONNX; it must not trap here.
static Value nonZero(OpBuilder &b, Location loc, Value divisor) {
  Value zero = constant(b, loc, divisor.getType(), 0);
  Value isZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, divisor, zero);
  return arith::SelectOp::create(b, loc, isZero, constant(b, loc, divisor.getType(), 1), divisor);
}

TPC_SCALAR(DivOp) {
  if (isFloat(x[0]))
    return arith::DivFOp::create(b, loc, x[0], x[1]);
  return arith::DivSIOp::create(b, loc, x[0], nonZero(b, loc, x[1]));
}

TPC_SCALAR(ModOp) {
  if (isFloat(x[0]))
    return arith::RemFOp::create(b, loc, x[0], x[1]);
  // The remainder takes the divisor's sign: add the divisor where they differ.
  Value divisor = nonZero(b, loc, x[1]);
  Value r = arith::RemSIOp::create(b, loc, x[0], divisor);
  Value zero = constant(b, loc, r.getType(), 0);
  auto cmp = [&](arith::CmpIPredicate p, Value l, Value rhs) -> Value {
    return arith::CmpIOp::create(b, loc, p, l, rhs);
  };
  Value differ = arith::XOrIOp::create(b, loc, cmp(arith::CmpIPredicate::slt, r, zero),
                                       cmp(arith::CmpIPredicate::slt, divisor, zero));
  Value fix = arith::AndIOp::create(b, loc, differ, cmp(arith::CmpIPredicate::ne, r, zero));
  return arith::SelectOp::create(b, loc, fix, arith::AddIOp::create(b, loc, r, divisor), r);
}

TPC_SCALAR(PowOp) {
  if (isFloat(x[0])) {
    if (isFloat(x[1]))
      return math::PowFOp::create(b, loc, x[0], x[1]);
    Value exponent = arith::SIToFPOp::create(b, loc, x[0].getType(), x[1]);
    return math::PowFOp::create(b, loc, x[0], exponent);
  }
  // Integers: in double, which is exact up to 2^53.
  Type f64 = b.getF64Type();
  auto toDouble = [&](Value v) -> Value {
    if (isFloat(v))
      return v.getType() == f64 ? v : arith::ExtFOp::create(b, loc, f64, v).getResult();
    return arith::SIToFPOp::create(b, loc, f64, v);
  };
  Value p = math::PowFOp::create(b, loc, toDouble(x[0]), toDouble(x[1]));
  return arith::FPToSIOp::create(b, loc, x[0].getType(), p);
}

TPC_SCALAR(AndOp) { return arith::AndIOp::create(b, loc, x[0], x[1]); }
TPC_SCALAR(OrOp) { return arith::OrIOp::create(b, loc, x[0], x[1]); }
TPC_SCALAR(XorOp) { return arith::XOrIOp::create(b, loc, x[0], x[1]); }
TPC_SCALAR(SelectOp) { return arith::SelectOp::create(b, loc, x[0], x[1], x[2]); }

TPC_SCALAR(CmpOp) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I unsignedInts[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  int p = (int)getPredicate();
  if (isFloat(x[0]))
    return arith::CmpFOp::create(b, loc, floats[p], x[0], x[1]);
  bool isUnsigned = elementType(getLhs()).isUnsignedInteger() || elementType(getLhs()).isInteger(1);
  return arith::CmpIOp::create(b, loc, isUnsigned ? unsignedInts[p] : ints[p], x[0], x[1]);
}

TPC_SCALAR(CastOp) {
  Type from = elementType(getOperand()), to = elementType(getResult());
  Value v = x[0];
  if (from == to)
    return v;
  bool fromUnsigned = from.isInteger(1) || from.isUnsignedInteger();
  if (to.isInteger(1)) {
    Value zero = constant(b, loc, v.getType(), 0);
    if (isFloat(v))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, v, zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, v, zero);
  }
  if (auto f = dyn_cast<FloatType>(to)) {
    if (auto g = dyn_cast<FloatType>(from)) {
      if (f.getWidth() > g.getWidth())
        return arith::ExtFOp::create(b, loc, f, v);
      if (f.getWidth() < g.getWidth())
        return arith::TruncFOp::create(b, loc, f, v);
      Value wide = arith::ExtFOp::create(b, loc, b.getF32Type(), v);
      return arith::TruncFOp::create(b, loc, f, wide);
    }
    if (fromUnsigned)
      return arith::UIToFPOp::create(b, loc, f, v);
    return arith::SIToFPOp::create(b, loc, f, v);
  }
  unsigned width = to.getIntOrFloatBitWidth();
  Type target = b.getIntegerType(width); // signless, as arith wants
  if (isFloat(v)) {
    if (to.isUnsignedInteger())
      return arith::FPToUIOp::create(b, loc, target, v);
    return arith::FPToSIOp::create(b, loc, target, v);
  }
  unsigned have = from.getIntOrFloatBitWidth();
  if (width < have)
    return arith::TruncIOp::create(b, loc, target, v);
  if (width == have)
    return v;
  if (fromUnsigned)
    return arith::ExtUIOp::create(b, loc, target, v);
  return arith::ExtSIOp::create(b, loc, target, v);
}
