//===- Elementwise.cpp - Add, Sub, Mul, Div, Mod, Pow, Min, Max, … --------===//

#include "Fold.h"
#include "OpTable.h"
#include "tpc/Dialect/Elements.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

//===----------------------------------------------------------------------===//
// Binary ops
//===----------------------------------------------------------------------===//

/// Broadcasts the right operand as in operator sets up to 6: only if `broadcast` is set, and from
/// dimension `axis` on.
static FailureOr<Tensor> legacyBroadcast(Node &n) {
  Tensor rhs = n.in(1);
  bool broadcast = n.getInt("broadcast", 0);
  int64_t axis = n.getInt("axis", n.in(0).rank() - rhs.rank());
  if (n.failed())
    return failure();
  if (!broadcast || axis == n.in(0).rank() - rhs.rank())
    return rhs;
  if (axis < 0)
    axis += n.in(0).rank();
  // Compares without arithmetic on `axis`, which could overflow.
  int64_t maxAxis = n.in(0).rank() - rhs.rank();
  if (axis < 0 || axis > maxAxis)
    return n.error() << "has axis " << axis << ", but its operands have " << n.in(0).rank()
                     << " and " << rhs.rank() << " dimensions";
  Sizes sizes = rhs.shape;
  sizes.append(maxAxis - axis, SymExpr(1));
  if (rhs.contents) {
    rhs.shape = sizes;
    rhs.value = {};
    return rhs;
  }
  return n.wrap(n.reshape(n.materialize(rhs), sizes));
}

/// Returns bounds of x + y, of x - y, and of products of non-negative operands.
static std::optional<Interval> foldInterval(Arithmetic op, const Tensor &x, const Tensor &y) {
  auto bounds = [](const Tensor &t) -> std::optional<Interval> {
    if (auto scalar = t.scalarInt())
      return Interval{*scalar, *scalar};
    return t.interval;
  };
  auto a = bounds(x), b = bounds(y);
  if (!a || !b)
    return std::nullopt;
  auto nonNegative = [](const SymExpr &e) { return e.lowerBound().value_or(-1) >= 0; };
  switch (op) {
  case Arithmetic::Add:
    return Interval{a->low + b->low, a->high + b->high};
  case Arithmetic::Sub:
    return Interval{a->low - b->high, a->high - b->low};
  case Arithmetic::Mul:
    if (nonNegative(a->low) && nonNegative(b->low))
      return Interval{a->low * b->low, a->high * b->high};
    return std::nullopt;
  case Arithmetic::Min:
    return Interval{SymExpr::min(a->low, b->low), SymExpr::min(a->high, b->high)};
  case Arithmetic::Max:
    return Interval{SymExpr::max(a->low, b->low), SymExpr::max(a->high, b->high)};
  default:
    return std::nullopt;
  }
}

/// Computes x op y, folded if both are known.
static FailureOr<Tensor> apply(Node &n, Arithmetic op, const Tensor &x, const Tensor &y) {
  FailureOr<Sizes> sizes = n.broadcast(x.shape, y.shape);
  if (failed(sizes))
    return failure();
  if (op != Arithmetic::Pow && x.element != y.element)
    return n.error() << "has operands of types " << x.element << " and " << y.element
                     << "; they must be the same";
  if (canFold(*sizes, {&x, &y}) && x.isFloat() == y.isFloat()) {
    auto contents = std::make_shared<Contents>();
    contents->isFloat = x.isFloat();
    bool known = true;
    forEachBroadcast(*sizes, {&x, &y}, [&](ArrayRef<int64_t> at) {
      if (x.isFloat()) {
        auto r = foldFloat(op, x.contents->floats[at[0]], y.contents->floats[at[1]], x.element);
        known &= r.has_value();
        contents->floats.push_back(r.value_or(0));
      } else {
        const SymExpr &a = x.contents->ints[at[0]], &b = y.contents->ints[at[1]];
        std::string why = "node " + getSourceName(n.loc) + " compares sizes";
        std::optional<SymExpr> r = op == Arithmetic::Min   ? n.minimum(a, b, why)
                                   : op == Arithmetic::Max ? n.maximum(a, b, why)
                                                           : foldInt(op, a, b);
        known &= r.has_value();
        contents->ints.push_back(r.value_or(SymExpr(0)));
      }
    });
    if (known) {
      Tensor result;
      result.element = x.element;
      result.shape = *sizes;
      result.contents = contents;
      return result;
    }
  }
  Value lhs = n.materialize(x), rhs = n.materialize(y), v;
  switch (op) {
  case Arithmetic::Add:
    v = n.binary<AddOp>(lhs, rhs);
    break;
  case Arithmetic::Sub:
    v = n.binary<SubOp>(lhs, rhs);
    break;
  case Arithmetic::Mul:
    v = n.binary<MulOp>(lhs, rhs);
    break;
  case Arithmetic::Div:
    v = n.binary<DivOp>(lhs, rhs);
    break;
  case Arithmetic::Mod:
    v = n.binary<ModOp>(lhs, rhs);
    break;
  case Arithmetic::FMod:
    // The dialect's remainder has the sign of x for floats, and the sign of y for integers.
    if (!x.isFloat()) {
      Value quotient = n.binary<MulOp>(n.binary<DivOp>(lhs, rhs), rhs);
      v = n.binary<SubOp>(lhs, quotient);
    } else {
      v = n.binary<ModOp>(lhs, rhs);
    }
    break;
  case Arithmetic::Pow:
    v = n.binary<PowOp>(lhs, rhs);
    break;
  case Arithmetic::Min:
    v = n.binary<MinOp>(lhs, rhs);
    break;
  case Arithmetic::Max:
    v = n.binary<MaxOp>(lhs, rhs);
    break;
  case Arithmetic::And:
    v = n.binary<AndOp>(lhs, rhs);
    break;
  case Arithmetic::Or:
    v = n.binary<OrOp>(lhs, rhs);
    break;
  case Arithmetic::Xor:
    v = n.binary<XorOp>(lhs, rhs);
    break;
  }
  Tensor result = n.wrap(v);
  result.interval = foldInterval(op, x, y);
  if (result.interval &&
      (!isReasonable(result.interval->low) || !isReasonable(result.interval->high)))
    result.interval.reset();
  return result;
}

/// Reports an error unless inputs 0 and 1 have integers (or booleans) of one type.
static LogicalResult expectBits(Node &n, unsigned inputs) {
  if (failed(n.expectInputs(inputs)))
    return failure();
  if (n.in(0).isFloat())
    return n.error() << "needs integers, but has " << n.in(0).element;
  if (inputs == 2 && n.in(0).element != n.in(1).element)
    return n.error() << "has operands of types " << n.in(0).element << " and " << n.in(1).element
                     << "; they must be the same";
  return success();
}

/// Imports a logical op on each bit of integers, and on booleans, which some exporters write.
template <Arithmetic op> static LogicalResult importBits(Node &n) {
  if (failed(expectBits(n, 2)))
    return failure();
  FailureOr<Tensor> result = apply(n, op, n.in(0), n.in(1));
  return failed(result) ? failure() : n.result(*result);
}

/// Returns an integer of a type.
static Tensor makeInteger(Type element, int64_t number) {
  Contents contents;
  contents.ints.push_back(SymExpr(number));
  Tensor tensor;
  tensor.element = element;
  tensor.contents = std::make_shared<Contents>(std::move(contents));
  return tensor;
}

/// Computes ~x as -1 - x.
static LogicalResult importBitwiseNot(Node &n) {
  if (failed(expectBits(n, 1)))
    return failure();
  const Tensor &x = n.in(0);
  if (x.isBool())
    return n.result(n.unary<NotOp>(n.operand(0)));
  Tensor ones = makeInteger(x.element, isUnsigned(x.element) ? 255 : -1);
  FailureOr<Tensor> result = apply(n, Arithmetic::Sub, ones, x);
  return failed(result) ? failure() : n.result(*result);
}

/// Divides by positive powers of two, rounded down.
static FailureOr<Tensor> floorDivide(Node &n, const Tensor &x, const Tensor &divisor) {
  auto isNonNegative = [](const SymExpr &e) { return e.lowerBound().value_or(-1) >= 0; };
  if (isUnsigned(x.element) || (x.contents && llvm::all_of(x.contents->ints, isNonNegative)))
    return apply(n, Arithmetic::Div, x, divisor);
  FailureOr<Tensor> rest = apply(n, Arithmetic::Mod, x, divisor);
  if (failed(rest))
    return failure();
  FailureOr<Tensor> multiple = apply(n, Arithmetic::Sub, x, *rest);
  if (failed(multiple))
    return failure();
  return apply(n, Arithmetic::Div, *multiple, divisor);
}

/// Multiplies or divides by powers of two. Amounts that are negative or at least the number of bits
/// leave only sign bits, as defined since operator set 28.
static LogicalResult importBitShift(Node &n) {
  std::string direction = n.getString("direction", "");
  if (failed(expectBits(n, 2)))
    return failure();
  if (direction != "LEFT" && direction != "RIGHT")
    return n.error() << "has direction '" << direction << "'; it must be LEFT or RIGHT";
  const Tensor &x = n.in(0), &amounts = n.in(1);
  if (!amounts.contents || x.isBool())
    return n.needsKnown(1, "a shift amount");
  bool left = direction == "LEFT";
  int64_t bits = x.element.getIntOrFloatBitWidth(), top = bits - (isUnsigned(x.element) ? 1 : 2);
  // Positive powers of two up to 2^top fit. Shifts right by more are done in two steps.
  auto first = std::make_shared<Contents>(), second = std::make_shared<Contents>();
  bool twice = false;
  for (const SymExpr &e : amounts.contents->ints) {
    std::optional<int64_t> amount = e.asConstant();
    if (!amount)
      return n.needsKnown(1, "a shift amount");
    bool outside = *amount < 0 || *amount >= bits;
    int64_t steps = outside ? top + 1 : *amount;
    first->ints.push_back(SymExpr(left && outside ? 0 : int64_t(1) << std::min(steps, top)));
    second->ints.push_back(SymExpr(steps > top ? 2 : 1));
    twice |= steps > top;
  }
  FailureOr<Tensor> result = x;
  for (const auto &powers : {first, second}) {
    Tensor factor = amounts;
    factor.contents = powers;
    factor.source = nullptr;
    factor.value = {};
    factor.interval.reset();
    if (succeeded(result) && (powers == first || twice))
      result = left ? apply(n, Arithmetic::Mul, *result, factor) : floorDivide(n, *result, factor);
  }
  return failed(result) ? failure() : n.result(*result);
}

template <Arithmetic op> static LogicalResult importBinary(Node &n) {
  constexpr bool logical = op == Arithmetic::And || op == Arithmetic::Or || op == Arithmetic::Xor;
  if (failed(n.expectInputs(2)))
    return failure();
  for (unsigned i = 0; i < 2; ++i)
    if (n.in(i).isBool() != logical)
      return n.error() << "has an operand of type " << n.in(i).element
                       << (logical ? "; it must be boolean" : "; it must be a number");
  Tensor rhs = n.in(1);
  if (n.version < 7) {
    FailureOr<Tensor> legacy = legacyBroadcast(n);
    if (failed(legacy))
      return failure();
    rhs = *legacy;
  }
  FailureOr<Tensor> result = apply(n, op, n.in(0), rhs);
  return failed(result) ? failure() : n.result(*result);
}

static LogicalResult importMod(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  if (n.in(0).isBool())
    return n.error() << "needs numbers, but has booleans";
  bool fmod = n.getInt("fmod", 0), isFloat = n.in(0).isFloat();
  if (isFloat && !fmod && n.version < 28)
    return n.error() << "needs fmod = 1 for floating-point operands";
  FailureOr<Tensor> result =
      apply(n, fmod || isFloat ? Arithmetic::FMod : Arithmetic::Mod, n.in(0), n.in(1));
  if (failed(result))
    return failure();
  if (fmod || !isFloat)
    return n.result(*result);
  // Since operator set 28, the result has the sign of y: adds y if the remainder has the other
  // sign.
  Value r = n.materialize(*result), y = n.operand(1), zero = n.scalar(0, y);
  Value differs =
      n.binary<XorOp>(n.compare(Predicate::LT, r, zero), n.compare(Predicate::LT, y, zero));
  Value wrong = n.binary<AndOp>(n.compare(Predicate::NE, r, zero), differs);
  return n.result(n.select(wrong, n.binary<AddOp>(r, y), r));
}

/// Imports an op with any number of operands.
template <Arithmetic op, bool mean = false> static LogicalResult importVariadic(Node &n) {
  if (failed(n.expectInputs(1, 10000)))
    return failure();
  if (n.in(0).isBool())
    return n.error() << "needs numbers, but has booleans";
  Tensor result = n.in(0);
  for (unsigned i = 1; i < n.numInputs(); ++i) {
    if (!n.has(i))
      return n.error() << "lacks input " << i;
    FailureOr<Tensor> next = apply(n, op, result, n.in(i));
    if (failed(next))
      return failure();
    result = *next;
  }
  if (mean && n.numInputs() > 1) {
    if (!result.isFloat())
      return n.error() << "needs floating-point operands";
    Value sum = n.materialize(result);
    result = n.wrap(n.binary<DivOp>(sum, n.scalar(n.numInputs(), sum)));
  }
  return n.result(result);
}

//===----------------------------------------------------------------------===//
// Unary ops
//===----------------------------------------------------------------------===//

using FoldUnary = double (*)(double);

template <typename OpTy, bool floatOnly> static LogicalResult importUnary(Node &n, FoldUnary fold) {
  if (failed(n.expectInputs(1)) || (floatOnly && failed(n.expectFloat(0))))
    return failure();
  const Tensor &x = n.in(0);
  if (x.isBool())
    return n.error() << "needs numbers, but has booleans";
  if (x.contents && x.isFloat() && fold) {
    Contents contents;
    contents.isFloat = true;
    for (double value : x.contents->floats)
      contents.floats.push_back(roundTo(x.element, fold(value)));
    return n.resultContents(x.element, x.shape, std::move(contents));
  }
  return n.result(n.unary<OpTy>(n.operand(0)));
}

template <typename OpTy> static LogicalResult importFloat(Node &n) {
  return importUnary<OpTy, true>(n, nullptr);
}

static LogicalResult importSqrt(Node &n) {
  return importUnary<SqrtOp, true>(n, [](double x) { return std::sqrt(x); });
}
static LogicalResult importReciprocal(Node &n) {
  return importUnary<ReciprocalOp, true>(n, [](double x) { return 1 / x; });
}
static LogicalResult importFloor(Node &n) {
  return importUnary<FloorOp, true>(n, [](double x) { return std::floor(x); });
}
static LogicalResult importCeil(Node &n) {
  return importUnary<CeilOp, true>(n, [](double x) { return std::ceil(x); });
}

static LogicalResult importNeg(Node &n) {
  if (n.numInputs() == 1 && n.has(0) && n.in(0).isInt() && n.in(0).contents) {
    Contents contents;
    for (const SymExpr &e : n.in(0).contents->ints)
      contents.ints.push_back(-e);
    // The lowest integer has no negation.
    if (llvm::all_of(contents.ints, isReasonable))
      return n.resultContents(n.in(0).element, n.in(0).shape, std::move(contents));
  }
  return importUnary<NegOp, false>(n, [](double x) { return -x; });
}

/// Integers are clamped to -1 and 1.
static LogicalResult importSign(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  const Tensor &x = n.in(0);
  if (x.isBool())
    return n.error() << "needs numbers, but has booleans";
  if (x.isFloat()) { // NaN and zero are their own signs
    Value v = n.operand(0), zero = n.scalar(0, v);
    Value negative = n.select(n.compare(Predicate::LT, v, zero), n.scalar(-1, v), v);
    return n.result(n.select(n.compare(Predicate::GT, v, zero), n.scalar(1, v), negative));
  }
  FailureOr<Tensor> result = apply(n, Arithmetic::Min, x, makeInteger(x.element, 1));
  if (succeeded(result) && !isUnsigned(x.element))
    result = apply(n, Arithmetic::Max, *result, makeInteger(x.element, -1));
  return failed(result) ? failure() : n.result(*result);
}

static LogicalResult importAbs(Node &n) {
  return importUnary<AbsOp, false>(n, [](double x) { return std::fabs(x); });
}

void mlir::tpc::frontend::addElementwiseOps(OpTable &t) {
  t.add("Add", {1, 6, 7, 13, 14}, importBinary<Arithmetic::Add>);
  t.add("Sub", {1, 6, 7, 13, 14}, importBinary<Arithmetic::Sub>);
  t.add("Mul", {1, 6, 7, 13, 14}, importBinary<Arithmetic::Mul>);
  t.add("Div", {1, 6, 7, 13, 14}, importBinary<Arithmetic::Div>);
  t.add("Pow", {1, 7, 12, 13, 15}, importBinary<Arithmetic::Pow>);
  t.add("And", {1, 7}, importBinary<Arithmetic::And>);
  t.add("Or", {1, 7}, importBinary<Arithmetic::Or>);
  t.add("Xor", {1, 7}, importBinary<Arithmetic::Xor>);
  t.add("BitwiseAnd", {18}, importBits<Arithmetic::And>);
  t.add("BitwiseOr", {18}, importBits<Arithmetic::Or>);
  t.add("BitwiseXor", {18}, importBits<Arithmetic::Xor>);
  t.add("BitwiseNot", {18}, importBitwiseNot);
  t.add("BitShift", {11, 28}, importBitShift, "amounts known while importing");
  t.add("Mod", {10, 13, 28}, importMod, "numbers; fmod = 1 for floats below opset 28");
  t.add("Min", {1, 6, 8, 12, 13}, importVariadic<Arithmetic::Min>);
  t.add("Max", {1, 6, 8, 12, 13}, importVariadic<Arithmetic::Max>);
  t.add("Sum", {1, 6, 8, 13}, importVariadic<Arithmetic::Add>);
  t.add("Mean", {1, 6, 8, 13}, importVariadic<Arithmetic::Add, true>, "floats");

  t.add("Neg", {1, 6, 13}, importNeg);
  t.add("Abs", {1, 6, 13}, importAbs);
  t.add("Sign", {9, 13}, importSign);
  t.add("Sqrt", {1, 6, 13}, importSqrt);
  t.add("Reciprocal", {1, 6, 13}, importReciprocal);
  t.add("Floor", {1, 6, 13}, importFloor);
  t.add("Ceil", {1, 6, 13}, importCeil);
  t.add("Round", {11, 22}, importFloat<RoundOp>);
  t.add("Exp", {1, 6, 13}, importFloat<ExpOp>);
  t.add("Log", {1, 6, 13}, importFloat<LogOp>);
  t.add("Sin", {7, 22}, importFloat<SinOp>);
  t.add("Cos", {7, 22}, importFloat<CosOp>);
  t.add("Tanh", {1, 6, 13}, importFloat<TanhOp>);
  t.add("Erf", {9, 13}, importFloat<ErfOp>);
  t.add("Sigmoid", {1, 6, 13}, importFloat<SigmoidOp>);
}
