//===- Fold.cpp - Arithmetic on known contents ----------------------------===//

#include "Fold.h"
#include "tpc/Dialect/Elements.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static bool isNonNegative(const SymExpr &e) {
  std::optional<int64_t> lower = e.lowerBound();
  return lower && *lower >= 0;
}

static std::optional<SymExpr> foldDivision(Arithmetic op, const SymExpr &x, const SymExpr &y) {
  auto a = x.asConstant(), b = y.asConstant();
  if (b && *b == 0)
    return std::nullopt;
  if (a && b) {
    if (*b == -1)
      return op == Arithmetic::Div ? -x : SymExpr(0);
    int64_t quotient = *a / *b, rest = *a % *b;
    if (op == Arithmetic::Div)
      return SymExpr(quotient);
    bool wrongSign = rest && (rest < 0) != (*b < 0);
    return SymExpr(op == Arithmetic::Mod && wrongSign ? rest + *b : rest);
  }
  if (op == Arithmetic::Div)
    if (auto exact = x.divideExact(y))
      return exact;
  // Truncation and floor agree for non-negative numbers.
  std::optional<int64_t> lower = y.lowerBound(1);
  if (!isNonNegative(x) || !lower || *lower < 1)
    return std::nullopt;
  return op == Arithmetic::Div ? SymExpr::floorDiv(x, y) : SymExpr::mod(x, y);
}

std::optional<SymExpr> mlir::tpc::frontend::foldInt(Arithmetic op, const SymExpr &x,
                                                    const SymExpr &y) {
  auto a = x.asConstant(), b = y.asConstant();
  std::optional<SymExpr> result;
  switch (op) {
  case Arithmetic::Add:
    result = x + y;
    break;
  case Arithmetic::Sub:
    result = x - y;
    break;
  case Arithmetic::Mul:
    result = x * y;
    break;
  case Arithmetic::Div:
  case Arithmetic::Mod:
  case Arithmetic::FMod:
    result = foldDivision(op, x, y);
    break;
  case Arithmetic::Pow:
    if (b && *b >= 0 && *b <= 8) {
      result = SymExpr(1);
      for (int64_t i = 0; i < *b && isReasonable(*result); ++i)
        result = *result * x;
    }
    break;
  case Arithmetic::Min:
    result = SymExpr::min(x, y);
    break;
  case Arithmetic::Max:
    result = SymExpr::max(x, y);
    break;
  case Arithmetic::And:
  case Arithmetic::Or:
  case Arithmetic::Xor:
    if (a && b)
      result = SymExpr(op == Arithmetic::And ? *a & *b : op == Arithmetic::Or ? *a | *b : *a ^ *b);
    else if (op == Arithmetic::And && b && llvm::isMask_64(*b) && isNonNegative(x))
      result = SymExpr::mod(x, *b + 1);
    break;
  }
  if (result && !isReasonable(*result))
    return std::nullopt;
  return result;
}

std::optional<SymExpr> mlir::tpc::frontend::wrapInt(const SymExpr &e, Type type) {
  std::optional<int64_t> value = e.asConstant();
  if (!value)
    return type.getIntOrFloatBitWidth() >= 32 ? std::optional(e) : std::nullopt;
  APInt bits(64, (uint64_t)*value);
  bits = bits.trunc(type.getIntOrFloatBitWidth());
  return SymExpr(isUnsigned(type) ? (int64_t)bits.getZExtValue() : bits.getSExtValue());
}

std::optional<double> mlir::tpc::frontend::foldFloat(Arithmetic op, double x, double y,
                                                     Type element) {
  double r;
  switch (op) {
  case Arithmetic::Add:
    r = x + y;
    break;
  case Arithmetic::Sub:
    r = x - y;
    break;
  case Arithmetic::Mul:
    r = x * y;
    break;
  case Arithmetic::Div:
    r = x / y;
    break;
  case Arithmetic::FMod:
    r = std::fmod(x, y);
    break;
  case Arithmetic::Pow:
    r = std::pow(x, y);
    break;
  case Arithmetic::Min: // -0 is less than 0, as in MinOp
    r = std::isnan(x) || x < y || (x == y && std::signbit(x)) ? x : y;
    break;
  case Arithmetic::Max:
    r = std::isnan(x) || x > y || (x == y && std::signbit(y)) ? x : y;
    break;
  default:
    return std::nullopt;
  }
  return roundTo(element, r);
}

std::optional<bool> mlir::tpc::frontend::foldCompare(Predicate predicate, const SymExpr &x,
                                                     const SymExpr &y) {
  if (x.isOverflow() || y.isOverflow())
    return std::nullopt;
  auto atLeast = [](const SymExpr &e, int64_t n) {
    std::optional<int64_t> lower = e.lowerBound();
    return lower && *lower >= n;
  };
  switch (predicate) {
  case Predicate::EQ:
    if (x == y)
      return true;
    if (atLeast(x - y, 1) || atLeast(y - x, 1))
      return false;
    return std::nullopt;
  case Predicate::LT:
    if (atLeast(y - x, 1))
      return true;
    if (atLeast(x - y, 0))
      return false;
    return std::nullopt;
  case Predicate::NE:
    if (auto equal = foldCompare(Predicate::EQ, x, y))
      return !*equal;
    return std::nullopt;
  case Predicate::GT:
    return foldCompare(Predicate::LT, y, x);
  case Predicate::LE:
  case Predicate::GE:
    if (auto less = predicate == Predicate::LE ? foldCompare(Predicate::LT, y, x)
                                               : foldCompare(Predicate::LT, x, y))
      return !*less;
    return std::nullopt;
  }
  return std::nullopt;
}

bool mlir::tpc::frontend::canFold(ArrayRef<SymExpr> shape, ArrayRef<const Tensor *> operands) {
  std::optional<int64_t> count = product(shape).asConstant();
  return count && *count <= kMaxContents &&
         llvm::all_of(operands, [](const Tensor *t) { return t->contents != nullptr; });
}

void mlir::tpc::frontend::forEachBroadcast(ArrayRef<SymExpr> shape,
                                           ArrayRef<const Tensor *> operands,
                                           llvm::function_ref<void(ArrayRef<int64_t>)> body) {
  int64_t total = *product(shape).asConstant();
  SmallVector<SmallVector<int64_t>> strides;
  for (const Tensor *t : operands) {
    SmallVector<int64_t> s(shape.size(), 0);
    int64_t stride = 1;
    for (int64_t i = t->rank() - 1; i >= 0; --i) {
      int64_t size = *t->shape[i].asConstant();
      s[i + shape.size() - t->rank()] = size == 1 ? 0 : stride;
      stride *= size;
    }
    strides.push_back(std::move(s));
  }
  SmallVector<int64_t> positions(operands.size());
  for (int64_t n = 0; n < total; ++n) {
    std::fill(positions.begin(), positions.end(), 0);
    int64_t rest = n;
    for (int64_t d = shape.size() - 1; d >= 0; --d) {
      int64_t size = *shape[d].asConstant(), index = rest % size;
      rest /= size;
      for (size_t k = 0; k < operands.size(); ++k)
        positions[k] += index * strides[k][d];
    }
    body(positions);
  }
}
