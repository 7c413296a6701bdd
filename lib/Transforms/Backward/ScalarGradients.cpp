//===- ScalarGradients.cpp - Derivatives of element-wise ops --------------===//
//
// One row per op: the terms of its operands' cotangents, from the cotangent `d` of the result.
//
//===----------------------------------------------------------------------===//

#include "GradientOp.h"

#include <numbers>

using namespace mlir;
using namespace mlir::tpc;

using B = GradientBuilder;

namespace {
/// Derivative of a unary op with operand x and result y, times d.
using Unary = Value (*)(B &b, Value x, Value y, Value d);

template <typename OpT, Unary derivative>
struct UnaryGradient : GradientOpInterface::ExternalModel<UnaryGradient<OpT, derivative>, OpT> {
  LogicalResult buildGradient(Operation *op, B &b) const {
    Value x = op->getOperand(0), y = op->getResult(0);
    if (b.isActive(x))
      b.accumulate(x, derivative(b, x, y, b.getCotangent(y)));
    return success();
  }
};

/// Cotangents of a binary op; a null value is zero.
using Binary = std::pair<Value, Value> (*)(B &b, Value x, Value y, Value result, Value d);

template <typename OpT, Binary derivative>
struct BinaryGradient : GradientOpInterface::ExternalModel<BinaryGradient<OpT, derivative>, OpT> {
  LogicalResult buildGradient(Operation *op, B &b) const {
    Value x = op->getOperand(0), y = op->getOperand(1), result = op->getResult(0);
    auto [dx, dy] = derivative(b, x, y, result, b.getCotangent(result));
    if (dx)
      b.accumulateSum(x, dx);
    if (dy)
      b.accumulateSum(y, dy);
    return success();
  }
};

/// Ops whose derivative is zero almost everywhere, or whose results are not floats.
template <typename OpT>
struct ZeroGradient : GradientOpInterface::ExternalModel<ZeroGradient<OpT>, OpT> {
  LogicalResult buildGradient(Operation *, B &) const { return success(); }
  bool isDifferentiable(Operation *, unsigned) const { return false; }
};

Value isGreater(B &b, Value x, Value y) {
  return CmpOp::create(b.getBuilder(), b.getLoc(), Predicate::GT, x, y);
}
Value isEqual(B &b, Value x, Value y) {
  return CmpOp::create(b.getBuilder(), b.getLoc(), Predicate::EQ, x, y);
}

/// 1 - x.
Value complement(B &b, Value x) { return b.sub(b.number(1), x); }

/// Derivative of x sigmoid(k x), times d.
Value silu(B &b, Value x, Value d, double k) {
  Value s = b.apply<SigmoidOp>(b.mul(x, k));
  return b.mul(d, b.mul(s, b.add(b.mul(b.mul(x, complement(b, s)), k), b.number(1))));
}

Value gelu(B &b, GeluApproximation approximate, Value x, Value d) {
  switch (approximate) {
  case GeluApproximation::Sigmoid:
    return silu(b, x, d, 1.702);
  case GeluApproximation::None: {
    Value cdf = b.mul(b.add(b.apply<ErfOp>(b.mul(x, 1 / std::numbers::sqrt2)), b.number(1)), 0.5);
    Value density = b.mul(b.apply<ExpOp>(b.mul(b.mul(x, x), -0.5)),
                          std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return b.mul(d, b.add(cdf, b.mul(x, density)));
  }
  case GeluApproximation::Tanh: {
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
    Value square = b.mul(x, x);
    Value inner = b.mul(b.mul(x, b.add(b.mul(square, cubic), b.number(1))), scale);
    Value t = b.apply<TanhOp>(inner);
    Value slope = b.mul(b.add(b.mul(square, 3 * cubic), b.number(1)), scale / 2);
    Value half = b.mul(b.add(t, b.number(1)), 0.5);
    return b.mul(d, b.add(half, b.mul(b.mul(x, slope), complement(b, b.mul(t, t)))));
  }
  }
  llvm_unreachable("all formulas are covered");
}

struct GeluGradient : GradientOpInterface::ExternalModel<GeluGradient, GeluOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<GeluOp>(base);
    Value d = b.getCotangent(op.getResult());
    b.accumulate(op.getOperand(), gelu(b, op.getApproximate(), op.getOperand(), d));
    return success();
  }
};

struct CastGradient : GradientOpInterface::ExternalModel<CastGradient, CastOp> {
  LogicalResult buildGradient(Operation *op, B &b) const {
    Value x = op->getOperand(0);
    b.accumulate(x, b.toFloat(b.getCotangent(op->getResult(0)), elementTypeOf(x)));
    return success();
  }
};

struct SelectGradient : GradientOpInterface::ExternalModel<SelectGradient, SelectOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<SelectOp>(base);
    Value d = b.getCotangent(op.getResult()), zero = b.number(0);
    if (b.isActive(op.getLhs()))
      b.accumulateSum(op.getLhs(), b.select(op.getCondition(), d, zero));
    if (b.isActive(op.getRhs()))
      b.accumulateSum(op.getRhs(), b.select(op.getCondition(), zero, d));
    return success();
  }
};

/// Cotangents of a maximum (or minimum): equal operands share the cotangent, as in PyTorch.
std::pair<Value, Value> shareExtremum(B &b, Value x, Value y, Value d, bool isMax) {
  Value tie = b.select(isEqual(b, x, y), b.mul(d, 0.5), b.number(0));
  Value xWins = isMax ? isGreater(b, x, y) : isGreater(b, y, x);
  Value yWins = isMax ? isGreater(b, y, x) : isGreater(b, x, y);
  return {b.isActive(x) ? b.select(xWins, d, tie) : Value(),
          b.isActive(y) ? b.select(yWins, d, tie) : Value()};
}

struct PowGradient : GradientOpInterface::ExternalModel<PowGradient, PowOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<PowOp>(base);
    Value x = op.getLhs(), p = op.getRhs(), y = op.getResult(), d = b.getCotangent(y);
    if (elementTypeOf(x) != elementTypeOf(p))
      return op.emitError() << "has a base and an exponent of different types, which has no "
                               "gradient";
    if (b.isActive(x)) {
      Value lower = PowOp::create(b.getBuilder(), b.getLoc(), x, b.sub(p, b.number(1)));
      b.accumulateSum(x, b.mul(d, b.mul(p, lower)));
    }
    if (b.isActive(p))
      b.accumulateSum(p, b.mul(d, b.mul(y, b.apply<LogOp>(x))));
    return success();
  }
};

constexpr Unary negGradient = [](B &b, Value, Value, Value d) { return b.neg(d); };
constexpr Unary absGradient = [](B &b, Value x, Value, Value d) {
  Value zero = b.number(0);
  return b.select(isGreater(b, x, zero), d, b.select(isGreater(b, zero, x), b.neg(d), zero));
};
constexpr Unary expGradient = [](B &b, Value, Value y, Value d) { return b.mul(d, y); };
constexpr Unary logGradient = [](B &b, Value x, Value, Value d) { return b.div(d, x); };
constexpr Unary tanhGradient = [](B &b, Value, Value y, Value d) {
  return b.mul(d, complement(b, b.mul(y, y)));
};
constexpr Unary erfGradient = [](B &b, Value x, Value, Value d) {
  return b.mul(d, b.mul(b.apply<ExpOp>(b.neg(b.mul(x, x))), 2 * std::numbers::inv_sqrtpi));
};
constexpr Unary sinGradient = [](B &b, Value x, Value, Value d) {
  return b.mul(d, b.apply<CosOp>(x));
};
constexpr Unary cosGradient = [](B &b, Value x, Value, Value d) {
  return b.neg(b.mul(d, b.apply<SinOp>(x)));
};
constexpr Unary sigmoidGradient = [](B &b, Value, Value y, Value d) {
  return b.mul(d, b.mul(y, complement(b, y)));
};
constexpr Unary siluGradient = [](B &b, Value x, Value, Value d) { return silu(b, x, d, 1); };
constexpr Unary sqrtGradient = [](B &b, Value, Value y, Value d) {
  return b.div(b.mul(d, 0.5), y);
};
constexpr Unary rsqrtGradient = [](B &b, Value, Value y, Value d) {
  return b.mul(b.mul(d, -0.5), b.mul(y, b.mul(y, y)));
};
constexpr Unary reciprocalGradient = [](B &b, Value, Value y, Value d) {
  return b.neg(b.mul(d, b.mul(y, y)));
};
constexpr Unary reluGradient = [](B &b, Value x, Value, Value d) {
  Value zero = b.number(0);
  return b.select(isGreater(b, x, zero), d, zero);
};

constexpr Binary addGradient = [](B &, Value, Value, Value, Value d) { return std::pair(d, d); };
constexpr Binary subGradient = [](B &b, Value, Value y, Value, Value d) {
  return std::pair(d, b.isActive(y) ? b.neg(d) : Value());
};
constexpr Binary mulGradient = [](B &b, Value x, Value y, Value, Value d) {
  return std::pair(b.isActive(x) ? b.mul(d, y) : Value(), b.isActive(y) ? b.mul(d, x) : Value());
};
constexpr Binary divGradient = [](B &b, Value x, Value y, Value result, Value d) {
  Value scaled = b.div(d, y);
  return std::pair(scaled, b.isActive(y) ? b.neg(b.mul(scaled, result)) : Value());
};
constexpr Binary maxGradient = [](B &b, Value x, Value y, Value, Value d) {
  return shareExtremum(b, x, y, d, true);
};
constexpr Binary minGradient = [](B &b, Value x, Value y, Value, Value d) {
  return shareExtremum(b, x, y, d, false);
};

template <typename OpT, Unary derivative> void attachUnary(MLIRContext *context) {
  OpT::template attachInterface<UnaryGradient<OpT, derivative>>(*context);
}
template <typename OpT, Binary derivative> void attachBinary(MLIRContext *context) {
  OpT::template attachInterface<BinaryGradient<OpT, derivative>>(*context);
}
template <typename... Ops> void attachZero(MLIRContext *context) {
  (Ops::template attachInterface<ZeroGradient<Ops>>(*context), ...);
}
} // namespace

void mlir::tpc::attachScalarGradients(MLIRContext *context) {
  attachUnary<NegOp, negGradient>(context);
  attachUnary<AbsOp, absGradient>(context);
  attachUnary<ExpOp, expGradient>(context);
  attachUnary<LogOp, logGradient>(context);
  attachUnary<TanhOp, tanhGradient>(context);
  attachUnary<ErfOp, erfGradient>(context);
  attachUnary<SinOp, sinGradient>(context);
  attachUnary<CosOp, cosGradient>(context);
  attachUnary<SigmoidOp, sigmoidGradient>(context);
  attachUnary<SiluOp, siluGradient>(context);
  attachUnary<SqrtOp, sqrtGradient>(context);
  attachUnary<RsqrtOp, rsqrtGradient>(context);
  attachUnary<ReciprocalOp, reciprocalGradient>(context);
  attachUnary<ReluOp, reluGradient>(context);
  attachBinary<AddOp, addGradient>(context);
  attachBinary<SubOp, subGradient>(context);
  attachBinary<MulOp, mulGradient>(context);
  attachBinary<DivOp, divGradient>(context);
  attachBinary<MaxOp, maxGradient>(context);
  attachBinary<MinOp, minGradient>(context);
  GeluOp::attachInterface<GeluGradient>(*context);
  CastOp::attachInterface<CastGradient>(*context);
  SelectOp::attachInterface<SelectGradient>(*context);
  PowOp::attachInterface<PowGradient>(*context);
  attachZero<FloorOp, CeilOp, RoundOp, NotOp, IsNanOp, AndOp, OrOp, XorOp, CmpOp>(context);
}
