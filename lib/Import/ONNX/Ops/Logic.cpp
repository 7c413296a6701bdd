//===- Logic.cpp - Comparisons, Not, Where, IsNaN, IsInf ------------------===//

#include "Fold.h"
#include "OpTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

template <Predicate predicate> static LogicalResult importCompare(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  if (n.version < 7) {
    n.ignore("axis");
    if (n.getInt("broadcast", 0) && n.in(1).rank() != 0 && n.hasAttribute("axis"))
      return n.error() << "broadcasts along an axis, as before operator set 7; convert the model "
                          "to a newer one";
  }
  const Tensor &x = n.in(0), &y = n.in(1);
  if (x.element != y.element)
    return n.error() << "compares " << x.element << " with " << y.element
                     << "; the types must be the same";
  FailureOr<Sizes> sizes = n.broadcast(x.shape, y.shape);
  if (failed(sizes))
    return failure();
  if (canFold(*sizes, {&x, &y})) {
    Contents contents;
    bool known = true;
    forEachBroadcast(*sizes, {&x, &y}, [&](ArrayRef<int64_t> at) {
      std::optional<bool> r =
          x.isFloat()
              ? evaluatePredicate(predicate, x.contents->floats[at[0]], y.contents->floats[at[1]])
              : foldCompare(predicate, x.contents->ints[at[0]], y.contents->ints[at[1]]);
      known &= r.has_value();
      contents.ints.push_back(SymExpr(r.value_or(false)));
    });
    if (known)
      return n.resultContents(n.b.getI1Type(), *sizes, std::move(contents));
  }
  return n.result(n.compare(predicate, n.operand(0), n.operand(1)));
}

static LogicalResult importNot(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  if (!n.in(0).isBool())
    return n.error() << "needs booleans, but has " << n.in(0).element;
  if (n.in(0).contents) {
    Contents contents;
    for (const SymExpr &e : n.in(0).contents->ints)
      contents.ints.push_back(SymExpr(e.isConstant(0)));
    return n.resultContents(n.in(0).element, n.in(0).shape, std::move(contents));
  }
  return n.result(n.unary<NotOp>(n.operand(0)));
}

static LogicalResult importWhere(Node &n) {
  if (failed(n.expectInputs(3)))
    return failure();
  const Tensor &c = n.in(0), &x = n.in(1), &y = n.in(2);
  if (!c.isBool() || x.element != y.element)
    return n.error() << "needs a boolean condition and two values of one type, but has "
                     << c.element << ", " << x.element << " and " << y.element;
  FailureOr<Sizes> sizes = n.broadcast(x.shape, y.shape);
  if (succeeded(sizes))
    sizes = n.broadcast(*sizes, c.shape);
  if (failed(sizes))
    return failure();
  if (canFold(*sizes, {&c, &x, &y})) {
    Contents contents;
    contents.isFloat = x.isFloat();
    forEachBroadcast(*sizes, {&c, &x, &y}, [&](ArrayRef<int64_t> at) {
      bool first = !c.contents->ints[at[0]].isConstant(0);
      if (x.isFloat())
        contents.floats.push_back(first ? x.contents->floats[at[1]] : y.contents->floats[at[2]]);
      else
        contents.ints.push_back(first ? x.contents->ints[at[1]] : y.contents->ints[at[2]]);
    });
    return n.resultContents(x.element, *sizes, std::move(contents));
  }
  // A uniform condition selects one of the operands.
  if (c.contents && c.contents->size() &&
      llvm::all_of(c.contents->ints, [&](const SymExpr &e) { return e == c.contents->ints[0]; })) {
    const Tensor &chosen = c.contents->ints[0].isConstant(0) ? y : x;
    if (chosen.shape.size() == sizes->size() &&
        llvm::equal(chosen.shape, *sizes, [](auto &a, auto &b) { return a == b; }))
      return n.result(chosen);
  }
  Tensor result = n.wrap(n.select(n.operand(0), n.operand(1), n.operand(2)));
  auto bounds = [](const Tensor &t) -> std::optional<Interval> {
    if (auto scalar = t.scalarInt())
      return Interval{*scalar, *scalar};
    return t.interval;
  };
  if (auto a = bounds(x), b = bounds(y); a && b)
    result.interval = Interval{SymExpr::min(a->low, b->low), SymExpr::max(a->high, b->high)};
  return n.result(result);
}

static LogicalResult importIsNan(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  Value x = n.operand(0);
  if (!x)
    return failure();
  return n.result(Value(IsNanOp::create(n.b, n.loc, n.type(n.b.getI1Type(), n.in(0).shape), x)));
}

static LogicalResult importIsInf(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  bool negative = n.getInt("detect_negative", 1), positive = n.getInt("detect_positive", 1);
  Value x = n.operand(0);
  if (!x)
    return failure();
  double inf = std::numeric_limits<double>::infinity();
  if (negative && positive)
    return n.result(n.compare(Predicate::EQ, n.unary<AbsOp>(x), n.scalar(inf, x)));
  if (negative || positive)
    return n.result(n.compare(Predicate::EQ, x, n.scalar(negative ? -inf : inf, x)));
  Value no = n.constant(n.b.getI1Type(), 0);
  return n.result(n.expand(no, n.in(0).shape));
}

void mlir::tpc::frontend::addLogicOps(OpTable &t) {
  t.add("Equal", {1, 7, 11, 13, 19}, importCompare<Predicate::EQ>, "one element type");
  t.add("Less", {1, 7, 9, 13}, importCompare<Predicate::LT>, "one element type");
  t.add("LessOrEqual", {12, 16}, importCompare<Predicate::LE>, "one element type");
  t.add("Greater", {1, 7, 9, 13}, importCompare<Predicate::GT>, "one element type");
  t.add("GreaterOrEqual", {12, 16}, importCompare<Predicate::GE>, "one element type");
  t.add("Not", {1}, importNot, "booleans");
  t.add("Where", {9, 16}, importWhere, "both values of one element type");
  t.add("IsNaN", {9, 13, 20}, importIsNan, "floats");
  t.add("IsInf", {10, 20}, importIsInf, "floats");
}
