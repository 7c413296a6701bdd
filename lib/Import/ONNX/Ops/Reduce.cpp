//===- Reduce.cpp - ReduceSum, ReduceMean, ReduceMax, …, ArgMax, ArgMin ---===//

#include "Fold.h"
#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
struct Reduction {
  SmallVector<int64_t> dims;
  bool keep, nothing;
};
} // namespace

/// Reads axes and keepdims. `axesInput`: first operator set in which the axes are an input.
static FailureOr<Reduction> readReduction(Node &n, int64_t axesInput) {
  if (failed(n.expectInputs(1, n.version < axesInput ? 1 : 2)))
    return failure();
  std::optional<SmallVector<int64_t>> axes;
  if (n.version < axesInput) {
    axes = n.getInts("axes");
  } else if (n.has(1)) {
    FailureOr<SmallVector<int64_t>> known = n.constantInts(1, "axes");
    if (failed(known))
      return failure();
    axes = std::move(*known);
  }
  Reduction r;
  r.keep = n.getInt("keepdims", 1);
  bool noop = n.version >= axesInput && n.getInt("noop_with_empty_axes", 0);
  if (n.failed())
    return failure();
  bool all = !axes || axes->empty();
  r.nothing = all && noop;
  if (all && !noop) {
    r.dims = llvm::to_vector(llvm::seq<int64_t>(0, n.in(0).rank()));
  } else if (!all) {
    FailureOr<SmallVector<int64_t>> normal = n.normalizeAxes(*axes, n.in(0).rank());
    if (failed(normal))
      return failure();
    r.dims = std::move(*normal);
    llvm::sort(r.dims);
  }
  return r;
}

/// Folds a known vector with `op`.
static std::optional<SymExpr> foldAll(const Contents &contents, Arithmetic op) {
  if (contents.isFloat || contents.ints.empty())
    return std::nullopt;
  std::optional<SymExpr> result = contents.ints[0];
  for (size_t i = 1; result && i < contents.ints.size(); ++i)
    result = foldInt(op, *result, contents.ints[i]);
  return result;
}

static FailureOr<bool> foldReduction(Node &n, const Reduction &r, Arithmetic op) {
  const Tensor &x = n.in(0);
  if (!x.contents || (int64_t)r.dims.size() != x.rank())
    return false;
  std::optional<SymExpr> all = foldAll(*x.contents, op);
  if (!all)
    return false;
  Contents contents;
  contents.ints.push_back(*all);
  Sizes sizes(r.keep ? x.rank() : 0, SymExpr(1));
  if (failed(n.resultContents(x.element, sizes, std::move(contents))))
    return failure();
  return true;
}

template <ReduceFunction function, int64_t axesInput> static LogicalResult importReduce(Node &n) {
  FailureOr<Reduction> r = readReduction(n, axesInput);
  if (failed(r))
    return failure();
  if (r->nothing)
    return n.result(n.in(0));
  if (n.in(0).isBool()) {
    // Max of booleans is "any", min is "all".
    if (function != ReduceFunction::Max && function != ReduceFunction::Min)
      return n.error() << "needs numbers, but has booleans";
    Value number = n.reduce(function, n.cast(n.operand(0), n.b.getI32Type()), r->dims, r->keep);
    if (!number)
      return failure();
    return n.result(n.compare(Predicate::GT, number, n.scalar(0, number)));
  }
  if (function != ReduceFunction::Mean) {
    FailureOr<bool> folded = foldReduction(n, *r,
                                           function == ReduceFunction::Sum   ? Arithmetic::Add
                                           : function == ReduceFunction::Max ? Arithmetic::Max
                                                                             : Arithmetic::Min);
    if (failed(folded))
      return failure();
    if (*folded)
      return success();
  } else if (failed(n.expectFloat(0))) {
    return failure();
  }
  return n.result(n.reduce(function, n.operand(0), r->dims, r->keep));
}

/// Imports ReduceProd of known contents only; exporters compute element counts with it.
static LogicalResult importReduceProd(Node &n) {
  FailureOr<Reduction> r = readReduction(n, 18);
  if (failed(r))
    return failure();
  if (r->nothing)
    return n.result(n.in(0));
  FailureOr<bool> folded = foldReduction(n, *r, Arithmetic::Mul);
  if (failed(folded))
    return failure();
  if (*folded)
    return success();
  return n.error() << "computes a product of data; tpc multiplies only sizes";
}

/// Imports after(sum(before(x))).
template <Value (*before)(Node &, Value), Value (*after)(Node &, Value)>
static LogicalResult importReduceOf(Node &n) {
  FailureOr<Reduction> r = readReduction(n, 18);
  if (failed(r) || failed(n.expectFloat(0)))
    return failure();
  Value x = before(n, n.operand(0));
  return n.result(after(n, r->nothing ? x : n.reduce(ReduceFunction::Sum, x, r->dims, r->keep)));
}

static Value same(Node &, Value x) { return x; }
static Value square(Node &n, Value x) { return n.binary<MulOp>(x, x); }
static Value root(Node &n, Value x) { return n.unary<SqrtOp>(x); }
static Value absolute(Node &n, Value x) { return n.unary<AbsOp>(x); }
static Value logarithm(Node &n, Value x) { return n.unary<LogOp>(x); }

/// Imports m + log(sum(exp(x - m))) with the maximum m, which does not overflow. A finite m keeps
/// rows of infinities from becoming NaN.
static LogicalResult importReduceLogSumExp(Node &n) {
  FailureOr<Reduction> r = readReduction(n, 18);
  if (failed(r) || failed(n.expectFloat(0)))
    return failure();
  Value x = n.operand(0);
  if (r->nothing || !x)
    return n.result(x);
  Value maximum = n.reduce(ReduceFunction::Max, x, r->dims, /*keep=*/true);
  const llvm::fltSemantics &format = cast<FloatType>(elementOf(x)).getFloatSemantics();
  double largest = APFloat::getLargest(format).convertToDouble();
  maximum = n.binary<MaxOp>(n.binary<MinOp>(maximum, n.scalar(largest, x)), n.scalar(-largest, x));
  Value powers = n.unary<ExpOp>(n.binary<SubOp>(x, maximum));
  Value sum = n.unary<LogOp>(n.reduce(ReduceFunction::Sum, powers, r->dims, /*keep=*/true));
  Value result = n.binary<AddOp>(sum, maximum);
  if (!result || r->keep)
    return n.result(result);
  Sizes sizes;
  for (auto [d, size] : llvm::enumerate(n.in(0).shape))
    if (!llvm::is_contained(r->dims, int64_t(d)))
      sizes.push_back(size);
  return n.result(n.reshape(result, sizes));
}

/// Imports ArgMax and ArgMin: the index of an extreme element is the minimum (with
/// select_last_index, the maximum) of all indices whose element equals the extreme. Reductions can
/// be split over ranks; a search could not.
template <ReduceFunction function> static LogicalResult importArg(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  const Tensor &x = n.in(0);
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", 0), x.rank());
  if (failed(axis))
    return failure();
  bool keep = n.getInt("keepdims", 1);
  bool last = n.version >= 12 && n.getInt("select_last_index", 0);
  if (x.isBool())
    return n.error() << "needs numbers, but has booleans";
  return n.result(n.argExtreme(function, n.operand(0), *axis, keep, last));
}

void mlir::tpc::frontend::addReduceOps(OpTable &t) {
  t.add("ReduceSum", {1, 11, 13}, importReduce<ReduceFunction::Sum, 13>,
        "numbers; axes known while importing");
  t.add("ReduceMean", {1, 11, 13, 18}, importReduce<ReduceFunction::Mean, 18>,
        "floats; axes known while importing");
  t.add("ReduceMax", {1, 11, 12, 13, 18, 20}, importReduce<ReduceFunction::Max, 18>,
        "axes known while importing");
  t.add("ReduceMin", {1, 11, 12, 13, 18, 20}, importReduce<ReduceFunction::Min, 18>,
        "axes known while importing");
  t.add("ReduceProd", {1, 11, 13, 18}, importReduceProd,
        "sizes and integer constants, over all dimensions");
  t.add("ReduceSumSquare", {1, 11, 13, 18}, importReduceOf<square, same>,
        "floats; axes known while importing");
  t.add("ReduceL1", {1, 11, 13, 18}, importReduceOf<absolute, same>,
        "floats; axes known while importing");
  t.add("ReduceLogSum", {1, 11, 13, 18, 28}, importReduceOf<same, logarithm>,
        "floats; axes known while importing");
  t.add("ReduceLogSumExp", {1, 11, 13, 18, 28}, importReduceLogSumExp,
        "floats; axes known while importing");
  t.add("ReduceL2", {1, 11, 13, 18}, importReduceOf<square, root>,
        "floats; axes known while importing");
  t.add("ArgMax", {1, 11, 12, 13}, importArg<ReduceFunction::Max>, "no booleans");
  t.add("ArgMin", {1, 11, 12, 13}, importArg<ReduceFunction::Min>, "no booleans");
}
