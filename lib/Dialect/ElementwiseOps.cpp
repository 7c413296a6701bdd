//===- ElementwiseOps.cpp - Element-wise ops ------------------------------===//
//
// Common code of all element-wise ops, and scalar computations that are too long for
// ElementwiseOps.td.
//
//===----------------------------------------------------------------------===//

#include "Elementwise.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::elementwise;

//===----------------------------------------------------------------------===//
// Types and rules, common to all element-wise ops
//===----------------------------------------------------------------------===//

LogicalResult elementwise::inferElementwise(std::optional<Location> loc, ValueRange operands,
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

ShardingRule elementwise::getElementwiseRule(Operation *op, ArrayRef<ShardingRule::Linear> linear) {
  ShardingRule rule;
  Sizes sizes = getSizes(op->getResult(0));
  ShardingRule::Dims dims = addDims(rule, sizes);
  for (Value v : op->getOperands())
    rule.operands.push_back(broadcastDims(getSizes(v), sizes, dims));
  rule.results.push_back(dims);
  rule.linear.assign(linear.begin(), linear.end());
  return rule;
}

LogicalResult elementwise::checkSameElements(std::optional<Location> loc, ValueRange operands) {
  Type a = elementTypeOf(operands[operands.size() - 2]), b = elementTypeOf(operands.back());
  if (a == b)
    return success();
  std::string text;
  llvm::raw_string_ostream(text) << "element types " << a << " and " << b << " differ";
  return inferError(loc, text);
}

// Linear if the cast is exact. A cast with kRoundsPartsAttr is also linear: it rounds each operand
// of the reduction, as the original 16-bit matmul did.
ShardingRule CastOp::getShardingRule() {
  auto from = dyn_cast<FloatType>(elementTypeOf(getOperand()));
  auto to = dyn_cast<FloatType>(elementTypeOf(getResult()));
  if (from && to &&
      (APFloat::isRepresentableBy(from.getFloatSemantics(), to.getFloatSemantics()) ||
       (*this)->hasAttr(kRoundsPartsAttr)))
    return getElementwiseRule(*this, {{{0}, false}});
  return getElementwiseRule(*this, {});
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
//
// 16-bit floats are passed as f32. The caller rounds results that are wider than the element type
// (getComputeType in KernelBuilder.h).

Value elementwise::number(OpBuilder &b, Location loc, Type type, double value) {
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, (int64_t)value));
}

Value elementwise::reciprocal(OpBuilder &b, Location loc, Value x) {
  return arith::DivFOp::create(b, loc, number(b, loc, x.getType(), 1), x);
}

Value elementwise::sigmoid(OpBuilder &b, Location loc, Value x) {
  Value one = number(b, loc, x.getType(), 1);
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
  return arith::DivFOp::create(b, loc, one, arith::AddFOp::create(b, loc, one, e));
}

double elementwise::sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Formulas of activations that matmul epilogues support are in functions.h, for all targets.
Value elementwise::silu(OpBuilder &b, Location loc, Value x) {
  return ::tpc::silu(Arithmetic(b, loc, x.getType()), x);
}

Value elementwise::relu(OpBuilder &b, Location loc, Value x) {
  return ::tpc::relu(Arithmetic(b, loc, x.getType()), x);
}

Value GeluOp::buildScalar(OpBuilder &b, Location loc, ValueRange x) {
  Arithmetic a(b, loc, x[0].getType());
  switch (getApproximate()) {
  case GeluApproximation::Sigmoid:
    return ::tpc::gated(a, x[0], a.mul(x[0], a.number(1.702)));
  case GeluApproximation::None:
    return ::tpc::geluErf(a, x[0]);
  case GeluApproximation::Tanh:
    return ::tpc::geluTanh(a, x[0]);
  }
  return {};
}

double GeluOp::evaluateScalar(ArrayRef<double> operands) {
  double x = operands[0];
  switch (getApproximate()) {
  case GeluApproximation::None:
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  case GeluApproximation::Tanh:
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case GeluApproximation::Sigmoid:
    return x * sigmoid(1.702 * x);
  }
  return 0;
}

static Value isNumber(OpBuilder &b, Location loc, Value x, double value) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x,
                               number(b, loc, x.getType(), value));
}

// Integer division by zero is undefined in ONNX; it must not trap here.
static Value nonZero(OpBuilder &b, Location loc, Value divisor) {
  return arith::SelectOp::create(b, loc, isNumber(b, loc, divisor, 0),
                                 number(b, loc, divisor.getType(), 1), divisor);
}

// The quotient of the minimum and -1 overflows; it must not trap either.
static Value safeDivisor(OpBuilder &b, Location loc, Value divisor) {
  divisor = nonZero(b, loc, divisor);
  return arith::SelectOp::create(b, loc, isNumber(b, loc, divisor, -1),
                                 number(b, loc, divisor.getType(), 1), divisor);
}

Value DivOp::buildScalar(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return arith::DivFOp::create(b, loc, x[0], x[1]);
  if (isUnsigned(getLhs().getType()))
    return arith::DivUIOp::create(b, loc, x[0], nonZero(b, loc, x[1]));
  Value quotient = arith::DivSIOp::create(b, loc, x[0], safeDivisor(b, loc, x[1]));
  Value zero = number(b, loc, quotient.getType(), 0);
  return arith::SelectOp::create(b, loc, isNumber(b, loc, x[1], -1),
                                 arith::SubIOp::create(b, loc, zero, x[0]), quotient);
}

Value ModOp::buildScalar(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0]))
    return arith::RemFOp::create(b, loc, x[0], x[1]);
  if (isUnsigned(getLhs().getType()))
    return arith::RemUIOp::create(b, loc, x[0], nonZero(b, loc, x[1]));
  Value divisor = safeDivisor(b, loc, x[1]);
  // ONNX's remainder has the sign of the divisor: add the divisor if the signs differ.
  Value r = arith::RemSIOp::create(b, loc, x[0], divisor);
  Value zero = number(b, loc, r.getType(), 0);
  auto cmp = [&](arith::CmpIPredicate p, Value l, Value rhs) -> Value {
    return arith::CmpIOp::create(b, loc, p, l, rhs);
  };
  Value differ = arith::XOrIOp::create(b, loc, cmp(arith::CmpIPredicate::slt, r, zero),
                                       cmp(arith::CmpIPredicate::slt, divisor, zero));
  Value fix = arith::AndIOp::create(b, loc, differ, cmp(arith::CmpIPredicate::ne, r, zero));
  return arith::SelectOp::create(b, loc, fix, arith::AddIOp::create(b, loc, r, divisor), r);
}

double ModOp::evaluateScalar(ArrayRef<double> x) {
  double r = std::fmod(x[0], x[1]);
  return isInteger(getLhs()) && r != 0 && (r < 0) != (x[1] < 0) ? r + x[1] : r;
}

static Value toFloatType(OpBuilder &b, Location loc, Value x, Type type) {
  if (x.getType() == type)
    return x;
  if (x.getType().getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(b, loc, type, x);
  return arith::TruncFOp::create(b, loc, type, x);
}

Value PowOp::buildScalar(OpBuilder &b, Location loc, ValueRange x) {
  if (isFloat(x[0])) {
    Type type = x[0].getType();
    if (isFloat(x[1])) { // computed in the wider type
      Type other = x[1].getType();
      Type wide = other.getIntOrFloatBitWidth() > type.getIntOrFloatBitWidth() ? other : type;
      Value p = math::PowFOp::create(b, loc, toFloatType(b, loc, x[0], wide),
                                     toFloatType(b, loc, x[1], wide));
      return toFloatType(b, loc, p, type);
    }
    Value exponent = isUnsigned(getRhs().getType())
                         ? Value(arith::UIToFPOp::create(b, loc, type, x[1]))
                         : Value(arith::SIToFPOp::create(b, loc, type, x[1]));
    return math::PowFOp::create(b, loc, x[0], exponent);
  }
  // Integers: in double, which is exact up to 2^53.
  Type f64 = b.getF64Type();
  auto toDouble = [&](Value v, Value tensor) -> Value {
    if (isFloat(v))
      return v.getType() == f64 ? v : arith::ExtFOp::create(b, loc, f64, v).getResult();
    if (isUnsigned(tensor.getType()))
      return arith::UIToFPOp::create(b, loc, f64, v);
    return arith::SIToFPOp::create(b, loc, f64, v);
  };
  Value p = math::PowFOp::create(b, loc, toDouble(x[0], getLhs()), toDouble(x[1], getRhs()));
  if (isUnsigned(getLhs().getType()))
    return arith::FPToUIOp::create(b, loc, x[0].getType(), p);
  return arith::FPToSIOp::create(b, loc, x[0].getType(), p);
}

Value CmpOp::buildScalar(OpBuilder &b, Location loc, ValueRange x) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I unsignedInts[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  int p = (int)getPredicate();
  if (isFloat(x[0]))
    return arith::CmpFOp::create(b, loc, floats[p], x[0], x[1]);
  return arith::CmpIOp::create(b, loc, isUnsigned(getLhs().getType()) ? unsignedInts[p] : ints[p],
                               x[0], x[1]);
}

double CmpOp::evaluateScalar(ArrayRef<double> x) {
  return evaluatePredicate(getPredicate(), x[0], x[1]);
}

bool mlir::tpc::isUnsigned(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isUnsignedInteger() || element.isInteger(1);
}

bool mlir::tpc::evaluatePredicate(Predicate predicate, double x, double y) {
  switch (predicate) {
  case Predicate::EQ:
    return x == y;
  case Predicate::NE:
    return x != y;
  case Predicate::LT:
    return x < y;
  case Predicate::LE:
    return x <= y;
  case Predicate::GT:
    return x > y;
  case Predicate::GE:
    return x >= y;
  }
  return false;
}

bool CastOp::isCheapScalar() { return true; }

double CastOp::evaluateScalar(ArrayRef<double> x) {
  Type to = elementTypeOf(getResult());
  if (to.isInteger(1))
    return x[0] != 0;
  return isa<IntegerType>(to) ? std::trunc(x[0]) : x[0];
}

Value CastOp::buildScalar(OpBuilder &b, Location loc, ValueRange x) {
  Type from = elementTypeOf(getOperand()), to = elementTypeOf(getResult());
  Value v = x[0];
  if (from == to)
    return v;
  bool fromUnsigned = isUnsigned(from);
  if (to.isInteger(1)) {
    Value zero = number(b, loc, v.getType(), 0);
    if (isFloat(v))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, v, zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, v, zero);
  }
  if (auto f = dyn_cast<FloatType>(to)) {
    if (isFloat(v))
      return toFloatType(b, loc, v, f);
    if (fromUnsigned)
      return arith::UIToFPOp::create(b, loc, f, v);
    return arith::SIToFPOp::create(b, loc, f, v);
  }
  unsigned width = to.getIntOrFloatBitWidth();
  Type target = b.getIntegerType(width); // signless, as arith requires
  if (isFloat(v)) {
    if (isUnsigned(to))
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
