//===- Selection.cpp - TopK, OneHot, Hardmax, ScatterElements -------------===//
//
// Routers of experts select and assign a few elements of a dimension. Each selected element is a
// reduction, and each assigned element a select by index. So no op sorts, or writes at an address
// that depends on data.
//
//===----------------------------------------------------------------------===//

#include "OpTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Maximum number of elements that are selected or assigned along a dimension; each is an op.
static constexpr int64_t kMaxSelected = 64;

/// Returns the number that is selected last: the lowest for Max, the largest for Min.
static Value makeLast(Node &n, Value like, ReduceFunction function) {
  bool isMax = function == ReduceFunction::Max;
  Type element = elementOf(like);
  if (isa<FloatType>(element)) {
    double infinity = std::numeric_limits<double>::infinity();
    return n.scalar(isMax ? -infinity : infinity, like);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  APInt extreme = element.isUnsignedInteger()
                      ? (isMax ? APInt::getMinValue(width) : APInt::getMaxValue(width))
                      : (isMax ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width));
  auto type = RankedTensorType::get({}, element);
  return ConstantOp::create(n.b, n.loc, type, DenseElementsAttr::get(type, extreme));
}

FailureOr<Selection> mlir::tpc::frontend::selectExtremes(Node &n, Value operand,
                                                         ReduceFunction function, int64_t dim,
                                                         int64_t count) {
  if (!operand)
    return failure();
  const SymExpr size = getSizes(operand)[dim];
  if (count < 1 || count > kMaxSelected)
    return n.error() << "selects k = " << count << " elements; tpc selects 1 to " << kMaxSelected;
  if (!n.assumeNonNegative(size - SymExpr(count), "node " + getSourceName(n.loc) + " selects " +
                                                      std::to_string(count) + " of " + size.str() +
                                                      " elements"))
    return n.error() << "selects " << count << " of " << size.str() << " elements";
  Selection result;
  Value index = n.iota(size, dim, rankOf(operand)), last = makeLast(n, operand, function);
  for (int64_t i = 0; i < count; ++i) {
    Value rest = result.taken ? n.select(result.taken, last, operand) : operand;
    Value best = n.reduce(function, rest, {dim}, /*keep=*/true);
    Value at = n.argExtreme(function, rest, dim, /*keep=*/true);
    if (result.taken) {
      // Taken elements were replaced by `last`. If all others equal it too, the first element that
      // is not taken is selected.
      Value other = n.cast(n.unary<NotOp>(result.taken), n.b.getI32Type());
      Value first = n.argExtreme(ReduceFunction::Max, other, dim, /*keep=*/true);
      at = n.select(n.compare(Predicate::EQ, best, last), first, at);
    }
    if (!at)
      return failure();
    result.values.push_back(best);
    result.indices.push_back(at);
    Value mine = n.compare(Predicate::EQ, index, at);
    result.taken = result.taken ? n.binary<OrOp>(result.taken, mine) : mine;
  }
  return result;
}

/// Imports TopK as k reductions. Each finds the first extreme element that is not taken yet.
static LogicalResult importTopK(Node &n) {
  if (failed(n.expectInputs(n.version < 10 ? 1 : 2)))
    return failure();
  const Tensor &x = n.in(0);
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", -1), x.rank());
  if (failed(axis))
    return failure();
  int64_t count = n.version < 10 ? n.getInt("k", -1) : 0;
  if (n.version >= 10) {
    FailureOr<SmallVector<int64_t>> known = n.constantInts(1, "k");
    if (failed(known))
      return failure();
    if (known->size() != 1)
      return n.error() << "needs one number k, but has " << known->size();
    count = known->front();
  }
  bool largest = n.version < 11 || n.getInt("largest", 1);
  n.ignore("sorted"); // any order is valid if false
  if (x.isBool())
    return n.error() << "needs numbers, but has booleans";
  FailureOr<Selection> selected = selectExtremes(
      n, n.operand(0), largest ? ReduceFunction::Max : ReduceFunction::Min, *axis, count);
  if (failed(selected))
    return failure();
  if (n.isUsed(0) && failed(n.set(0, n.wrap(n.concat(selected->values, *axis)))))
    return failure();
  if (!n.isUsed(1))
    return success();
  Tensor result = n.wrap(n.concat(selected->indices, *axis));
  result.interval = Interval{SymExpr(0), x.shape[*axis] - SymExpr(1)};
  return n.set(1, std::move(result));
}

/// Returns the depth of OneHot, which may be a float without a fraction.
static FailureOr<std::vector<SymExpr>> readDepth(Node &n) {
  if (!n.in(1).isFloat())
    return n.knownInts(1, "depth");
  std::optional<double> number = n.in(1).scalarFloat();
  if (!number)
    return n.needsKnown(1, "depth");
  if (*number != std::floor(*number) || std::fabs(*number) > 1e15)
    return n.error() << "has depth " << *number << "; it must be an integer", failure();
  return std::vector<SymExpr>{SymExpr(int64_t(*number))};
}

static LogicalResult importOneHot(Node &n) {
  if (failed(n.expectInputs(3)))
    return failure();
  const Tensor &indices = n.in(0), &values = n.in(2);
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", -1), indices.rank() + 1);
  if (failed(axis))
    return failure();
  FailureOr<std::vector<SymExpr>> depth = readDepth(n);
  if (failed(depth))
    return failure();
  if (depth->size() != 1 || values.rank() != 1 || !values.shape[0].isConstant(2))
    return n.error() << "needs one number depth, but has " << depth->size()
                     << ", and two values, but has " << str(values.shape);
  const SymExpr &size = depth->front();
  if (!n.assumeNonNegative(size, "node " + getSourceName(n.loc) + " has depth " + size.str()))
    return n.error() << "has depth " << size.str() << "; it must not be negative";
  Sizes column = indices.shape;
  column.insert(column.begin() + *axis, SymExpr(1));
  Value at = n.reshape(n.cast(n.operand(0), n.b.getI64Type()), column);
  if (!at)
    return failure();
  Value wrapped = n.binary<AddOp>(at, n.size(size, elementOf(at)));
  at = n.select(n.compare(Predicate::LT, at, n.scalar(0, at)), wrapped, at);
  Value isHot = n.compare(Predicate::EQ, at, n.iota(size, *axis, column.size()));
  auto value = [&](int64_t i) {
    return n.reshape(n.slice(n.operand(2), 0, SymExpr(i), SymExpr(1)), {});
  };
  return n.result(n.select(isHot, value(1), value(0)));
}

static LogicalResult importHardmax(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  const Tensor &x = n.in(0);
  bool flattens = n.version < 13;
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", flattens ? 1 : -1), x.rank());
  if (failed(axis))
    return failure();
  Value operand = n.operand(0);
  int64_t dim = *axis;
  if (flattens && *axis != x.rank() - 1) {
    // Up to operator set 12, all dimensions from `axis` on count as one.
    ArrayRef<SymExpr> sizes(x.shape);
    operand =
        n.reshape(operand, {product(sizes.take_front(*axis)), product(sizes.drop_front(*axis))});
    dim = 1;
  }
  Value best = n.argExtreme(ReduceFunction::Max, operand, dim, /*keep=*/true);
  if (!best)
    return failure();
  Value isBest =
      n.compare(Predicate::EQ, n.iota(getSizes(operand)[dim], dim, rankOf(operand)), best);
  return n.result(n.reshape(n.cast(isBest, x.element), x.shape));
}

/// Imports out[i][index[i][k]] = updates[i][k] as a select for each k.
static LogicalResult importScatterElements(Node &n) {
  if (failed(n.expectInputs(3)))
    return failure();
  const Tensor &data = n.in(0), &indices = n.in(1), &updates = n.in(2);
  if (!indices.isInt() || indices.rank() != data.rank() || updates.rank() != data.rank() ||
      updates.element != data.element)
    return n.error() << "assigns " << str(updates.shape) << " of " << updates.element << " to "
                     << str(data.shape) << " of " << data.element << " by indices "
                     << str(indices.shape) << " of " << indices.element
                     << "; all must have the same rank, data and updates one type, and indices "
                        "must be integers";
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  std::string reduction = n.version < 16 ? "none" : n.getString("reduction", "none");
  if (reduction != "none" && reduction != "add" && reduction != "mul" &&
      (n.version < 18 || (reduction != "max" && reduction != "min")))
    return n.error() << "has reduction = '" << reduction
                     << "'; it must be none, add or mul or, from opset 18 on, max or min";
  std::optional<int64_t> count = indices.shape[*axis].asConstant();
  if (!count || *count > kMaxSelected)
    return n.error() << "assigns " << indices.shape[*axis].str() << " elements of dimension "
                     << *axis << "; tpc assigns at most " << kMaxSelected;
  for (int64_t d = 0; d < data.rank(); ++d)
    if (!n.equate(indices.shape[d], updates.shape[d], "there is an index for each update") ||
        (d != *axis && !n.equate(indices.shape[d], data.shape[d],
                                 "indices and data have the same other dimensions")))
      return failure();
  const SymExpr &size = data.shape[*axis];
  bool isChecked = indices.interval && indices.interval->low.lowerBound().value_or(-1) >= 0 &&
                   (size - SymExpr(1) - indices.interval->high).lowerBound().value_or(-1) >= 0;
  Value result = n.operand(0), at = n.cast(n.operand(1), n.b.getI64Type());
  if (!isChecked)
    at = n.checkedIndex(at, size, /*wraps=*/true);
  Value fresh = n.operand(2), index = n.iota(size, *axis, data.rank());
  for (int64_t k = 0; k < *count && result; ++k) {
    Value mine = n.compare(Predicate::EQ, index, n.slice(at, *axis, SymExpr(k), SymExpr(1)));
    Value update = n.slice(fresh, *axis, SymExpr(k), SymExpr(1));
    if (reduction == "add")
      update = n.binary<AddOp>(result, update);
    else if (reduction == "mul")
      update = n.binary<MulOp>(result, update);
    else if (reduction == "max")
      update = n.binary<MaxOp>(result, update);
    else if (reduction == "min")
      update = n.binary<MinOp>(result, update);
    result = n.select(mine, update, result);
  }
  return n.result(result);
}

void mlir::tpc::frontend::addSelectionOps(OpTable &t) {
  t.add("TopK", {1, 10, 11, 24}, importTopK, "k a constant of at most 64; no booleans");
  t.add("OneHot", {9, 11, 28}, importOneHot, "depth known while importing");
  t.add("Hardmax", {1, 11, 13}, importHardmax);
  t.add("Scatter", {9, 11}, importScatterElements, "as ScatterElements");
  t.add("ScatterElements", {11, 13, 16, 18}, importScatterElements,
        "at most 64 indices along the axis; the other dimensions those of the data");
}
