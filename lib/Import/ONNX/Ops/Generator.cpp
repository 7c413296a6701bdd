//===- Generator.cpp - Range, ConstantOfShape, Trilu, CumSum --------------===//

#include "Fold.h"
#include "Importer.h"
#include "OpTable.h"

#include "onnx.pb.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Returns start + i delta for each i below size.
static Value progression(Node &n, Type element, const SymExpr &size, Value start, Value delta) {
  Value v = IotaOp::create(n.b, n.loc, n.type(element, {size}), 0);
  if (delta)
    v = n.binary<MulOp>(v, delta);
  if (start)
    v = n.binary<AddOp>(v, start);
  return v;
}

/// Returns the limit of a range from 0 in steps of 1, if it is a size that was cast to a float.
static std::optional<SymExpr> getCastLimit(Node &n) {
  Value limit = n.in(1).value;
  auto cast = limit ? limit.getDefiningOp<CastOp>() : CastOp();
  if (!cast || n.in(0).scalarFloat() != 0.0 || n.in(2).scalarFloat() != 1.0)
    return std::nullopt;
  return getSize(cast.getOperand());
}

static LogicalResult importFloatRange(Node &n) {
  if (std::optional<SymExpr> limit = getCastLimit(n))
    return n.result(progression(n, n.in(0).element, SymExpr::max(*limit, SymExpr(0)), {}, {}));
  double bounds[3];
  for (unsigned i = 0; i < 3; ++i) {
    std::optional<double> known = n.in(i).scalarFloat();
    if (!known)
      return n.needsKnown(i, i == 0 ? "start" : i == 1 ? "limit" : "delta");
    bounds[i] = *known;
  }
  double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (!(count < 1e9))
    return n.error() << "has a range with too many elements, or with a delta of 0";
  Type element = n.in(0).element;
  Value start = bounds[0] != 0 ? n.constant(element, bounds[0]) : Value();
  Value delta = bounds[2] != 1 ? n.constant(element, bounds[2]) : Value();
  return n.result(progression(n, element, SymExpr((int64_t)std::max(0.0, count)), start, delta));
}

static LogicalResult importRange(Node &n) {
  if (failed(n.expectInputs(3)))
    return failure();
  n.ignore("stash_type");
  Type element = n.in(0).element;
  for (unsigned i = 0; i < 3; ++i)
    if (n.in(i).isBool() || n.in(i).element != element || !n.in(i).count() || *n.in(i).count() != 1)
      return n.error() << "needs three numbers of one type";
  if (n.in(0).isFloat())
    return importFloatRange(n);
  std::optional<SymExpr> known[3];
  for (unsigned i = 0; i < 3; ++i)
    if (!(known[i] = n.in(i).scalarInt()))
      return n.needsKnown(i, i == 0 ? "start" : i == 1 ? "limit" : "delta");
  SymExpr start = *known[0], limit = *known[1];
  std::optional<int64_t> delta = known[2]->asConstant();
  if (!delta || *delta == 0 || *delta == INT64_MIN)
    return n.error() << "has a delta of `" << known[2]->str()
                     << "`; it must be a constant other than 0";
  SymExpr span = *delta > 0 ? limit - start : start - limit;
  int64_t step = std::abs(*delta);
  SymExpr size = SymExpr::max(span, SymExpr(0));
  if (step > 1)
    size = SymExpr::floorDiv(size + SymExpr(step - 1), SymExpr(step));

  if (auto count = size.asConstant(); count && *count <= kMaxContents) {
    Contents contents;
    for (int64_t i = 0; i < *count; ++i)
      contents.ints.push_back(start + SymExpr(*delta) * SymExpr(i));
    if (llvm::all_of(contents.ints, isReasonable))
      return n.resultContents(element, {size}, std::move(contents));
  }
  if (!isReasonable(size) || (size.isConstant() && *size.asConstant() > (1ll << 40)))
    return n.error() << "has " << size.str() << " elements, which are too many";
  Tensor result =
      n.wrap(progression(n, element, size, start.isConstant(0) ? Value() : n.size(start, element),
                         *delta == 1 ? Value() : n.size(*known[2], element)));
  SymExpr last = start + (size - SymExpr(1)) * SymExpr(*delta);
  result.interval = *delta > 0 ? Interval{start, last} : Interval{last, start};
  return n.result(std::move(result));
}

static LogicalResult importConstantOfShape(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  FailureOr<Sizes> known = n.knownSizes(0, "shape");
  if (failed(known))
    return failure();
  Sizes sizes = *known;
  for (const SymExpr &size : sizes)
    if (size.isConstant() && *size.asConstant() < 0)
      return n.error() << "has a negative size in its shape " << str(sizes);
  Tensor value;
  value.element = n.b.getF32Type();
  Contents zero;
  zero.isFloat = true;
  zero.floats.push_back(0);
  value.contents = std::make_shared<Contents>(std::move(zero));
  if (auto *given = n.attribute("value", ::onnx::AttributeProto::TENSOR)) {
    FailureOr<Tensor> read = n.importer.readTensor(given->t(), "the value", n.loc, false);
    if (failed(read))
      return failure();
    value = std::move(*read);
  }
  if (n.failed())
    return failure();
  if (!value.contents || value.contents->size() != 1)
    return n.error() << "needs a value of one element";
  value.shape.clear();
  value.source = {};
  std::optional<int64_t> count = product(sizes).asConstant();
  if (count && *count <= kMaxContents) {
    Contents contents;
    contents.isFloat = value.contents->isFloat;
    if (contents.isFloat)
      contents.floats.assign(*count, value.contents->floats[0]);
    else
      contents.ints.assign(*count, value.contents->ints[0]);
    return n.resultContents(value.element, sizes, std::move(contents));
  }
  Tensor result = n.wrap(n.expand(n.materialize(value), sizes));
  if (auto scalar = value.scalarInt())
    result.interval = Interval{*scalar, *scalar};
  return n.result(std::move(result));
}

static LogicalResult importTrilu(Node &n) {
  if (failed(n.expectInputs(1, 2)))
    return failure();
  bool upper = n.getInt("upper", 1);
  if (n.in(0).rank() < 2)
    return n.error() << "needs a matrix, but has " << str(n.in(0).shape);
  SymExpr k(0);
  if (n.has(1)) {
    FailureOr<std::vector<SymExpr>> known = n.knownInts(1, "k");
    if (failed(known))
      return failure();
    if (known->size() != 1)
      return n.error() << "needs one number for k";
    k = (*known)[0];
    // Clamps k to a diagonal beyond any matrix, so that row + k does not overflow at run time.
    constexpr int64_t far = 1ll << 40;
    if (std::optional<int64_t> value = k.asConstant())
      k = SymExpr(std::clamp(*value, -far, far));
  }
  Value x = n.operand(0);
  if (!x)
    return failure();
  return n.result(Value(TriluOp::create(n.b, n.loc, x.getType(), x, upper, k)));
}

static LogicalResult importCumSum(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  FailureOr<SmallVector<int64_t>> axis = n.constantInts(1, "axis");
  if (failed(axis))
    return failure();
  const Tensor &x = n.in(0);
  if (x.isBool())
    return n.error() << "needs numbers, but has booleans";
  if (axis->size() != 1)
    return n.error() << "needs one axis";
  FailureOr<int64_t> dim = n.normalizeAxis((*axis)[0], x.rank());
  bool exclusive = n.getInt("exclusive", 0), reverse = n.getInt("reverse", 0);
  if (failed(dim) || n.failed())
    return failure();
  Value v = n.operand(0);
  if (!v)
    return failure();
  Tensor result = n.wrap(CumSumOp::create(n.b, n.loc, v.getType(), v, *dim, exclusive, reverse));
  // Sums of n numbers in [0, high] are in [0, n high]. An exclusive sum has one term fewer.
  if (x.interval && x.interval->low.isConstant() && *x.interval->low.asConstant() >= 0)
    result.interval =
        Interval{SymExpr(0), x.interval->high * (x.shape[*dim] - SymExpr(exclusive ? 1 : 0))};
  return n.result(std::move(result));
}

void mlir::tpc::frontend::addGeneratorOps(OpTable &t) {
  t.add("Range", {11, 27}, importRange,
        "one element type; integers: start and limit known while importing, delta a constant; "
        "floats: constants, or from 0 to a size in steps of 1");
  t.add("ConstantOfShape", {9, 20, 21, 23, 24, 25}, importConstantOfShape,
        "shape known while importing");
  t.add("Trilu", {14}, importTrilu,
        "matrices or batches of them (rank 2 or more); k known while importing");
  t.add("CumSum", {11, 14}, importCumSum, "no booleans; axis known while importing");
}
