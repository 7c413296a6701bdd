//===- ShapeOps.cpp - Movement ops and lookups ----------------------------===//

#include "OpHelpers.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tpc;

using Dims = ShardingRule::Dims;

/// Builds the rule of an op whose operand and result have the same shape except in some dimensions,
/// which cannot be split.
static ShardingRule movingRule(Operation *op, ArrayRef<int64_t> whole, bool linear,
                               bool movesOnly) {
  ShardingRule rule;
  Sizes sizes = getSizes(op->getResult(0));
  Dims result = addDims(rule, sizes);
  for (int64_t d : whole)
    rule.factors[result[d][0]].kind = FactorKind::Unsplittable;
  rule.results.push_back(result);
  ShardingRule::Linear all;
  all.movesOnly = movesOnly;
  for (auto [i, v] : llvm::enumerate(op->getOperands())) {
    Dims dims = result;
    for (int64_t d : whole)
      dims[d] = {rule.addFactor(getSizes(v)[d], FactorKind::Unsplittable)};
    rule.operands.push_back(dims);
    all.operands.push_back(i);
  }
  if (linear)
    rule.linear.push_back(all);
  return rule;
}

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

// Compares both shapes from the major end. The larger of two sizes is divided by the smaller size,
// which becomes a common factor; the quotient remains. If neither size divides the other, the
// dimensions up to the point where both products are equal have no common factors and become
// unsplittable; earlier common factors are kept. [b, 4, 3] -> [b * 3, 4] has the factor b; the
// other sizes (4, 3 and 3, 4) are unsplittable.
namespace {
struct ReshapeFactors {
  /// Read position in one of the two shapes.
  struct Side {
    ArrayRef<SymExpr> sizes;
    Dims dims;
    size_t next = 0;
    SymExpr rest; // remaining quotient of dimension next - 1
    explicit Side(ArrayRef<SymExpr> sizes) : sizes(sizes), dims(sizes.size()), rest(1) {}

    /// Advances to the next dimension if the current one is consumed. Sizes of 1 have no factor.
    bool hasMore() {
      while (rest.isConstant(1) && next < sizes.size())
        rest = sizes[next++];
      return !rest.isConstant(1);
    }
    void add(int factor, const SymExpr &left) {
      dims[next - 1].push_back(factor);
      rest = left;
    }
  };
  ShardingRule &rule;
  Side in, out;

  void run() {
    bool inMore = in.hasMore(), outMore = out.hasMore();
    while (inMore || outMore) {
      if (!inMore || !outMore || !match())
        matchWhole();
      inMore = in.hasMore();
      outMore = out.hasMore();
    }
  }

  /// Adds the next common factor.
  bool match() {
    if (in.rest.isConstant(0) || out.rest.isConstant(0))
      return false;
    std::optional<SymExpr> ofIn = in.rest.divideExact(out.rest),
                           ofOut = out.rest.divideExact(in.rest);
    if (!ofIn && !ofOut)
      return false;
    int factor = rule.addFactor(ofIn ? out.rest : in.rest);
    in.add(factor, ofIn.value_or(SymExpr(1)));
    out.add(factor, ofIn ? SymExpr(1) : *ofOut);
    return true;
  }

  /// Adds unsplittable factors until both products are equal.
  void matchWhole() {
    SymExpr inTotal(1), outTotal(1);
    auto take = [&](Side &side, SymExpr &total, const SymExpr &other) {
      if (!side.hasMore())
        return false;
      SymExpr size = side.rest, left(1);
      // Consume only the missing factor of a dimension.
      if (auto missing = other.divideExact(total); missing && !missing->isConstant(1))
        if (auto rest = size.divideExact(*missing)) {
          size = *missing;
          left = *rest;
        }
      total = total * size;
      side.add(rule.addFactor(size, FactorKind::Unsplittable), left);
      return true;
    };
    auto takeIn = [&] { return take(in, inTotal, outTotal); };
    auto takeOut = [&] { return take(out, outTotal, inTotal); };
    takeIn();
    takeOut();
    while (inTotal != outTotal) {
      // Advance in the shape with the smaller product, if known.
      auto inNumber = inTotal.asConstant(), outNumber = outTotal.asConstant();
      bool inFirst = inNumber && outNumber ? *inNumber < *outNumber
                                           : !inTotal.divideExact(outTotal).has_value();
      bool taken = inFirst ? takeIn() || takeOut() : takeOut() || takeIn();
      if (!taken)
        return;
    }
  }
};
} // namespace

ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule;
  Sizes in = getSizes(getOperand()), out = getSizes(getResult());
  ReshapeFactors factors{rule, ReshapeFactors::Side(in), ReshapeFactors::Side(out)};
  factors.run();
  rule.operands.push_back(factors.in.dims);
  rule.results.push_back(factors.out.dims);
  rule.linear.push_back({{0}, true});
  return rule;
}

LogicalResult ReshapeOp::verify() {
  Sizes in = getSizes(getOperand()), out = getSizes(getResult());
  if (elementTypeOf(getOperand()) != elementTypeOf(getResult()))
    return emitOpError("must not change the element type");
  if (product(in) != product(out))
    return emitOpError() << "cannot turn " << describe(in) << " (" << product(in).str()
                         << " elements) into " << describe(out) << " (" << product(out).str()
                         << " elements)";
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto producer = getOperand().getDefiningOp<ReshapeOp>()) {
    // Fold only through a global intermediate value, because a split may not be expressible in the
    // other shape.
    if (getDist(producer.getOperand()).isSharded() || getDist(getOperand()).isSharded())
      return {};
    getOperandMutable().assign(producer.getOperand());
    return getResult();
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Transpose
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                            Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Sizes in = getSizes(adaptor.getOperand()), out;
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  SmallVector<bool> seen(in.size(), false);
  if (permutation.size() != in.size())
    return inferError(loc, "permutation has " + Twine(permutation.size()) + " entries for rank " +
                               Twine(in.size()));
  for (int64_t p : permutation) {
    if (p < 0 || p >= (int64_t)in.size() || seen[p])
      return inferError(loc, "not a permutation");
    seen[p] = true;
    out.push_back(in[p]);
  }
  types.push_back(makeTensorType(elementTypeOf(adaptor.getOperand()), out));
  return success();
}
bool TransposeOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) {
  return compatibleTypes(a, b);
}
LogicalResult TransposeOp::verify() { return success(); }

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule;
  Dims in = addDims(rule, getSizes(getOperand())), out;
  for (int64_t p : getPermutation())
    out.push_back(in[p]);
  rule.operands.push_back(in);
  rule.results.push_back(out);
  rule.linear.push_back({{0}, true});
  return rule;
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  bool identity = llvm::all_of(llvm::enumerate(getPermutation()),
                               [](auto p) { return (int64_t)p.index() == p.value(); });
  if (identity && getOperand().getType() == getType())
    return getOperand();
  if (auto producer = getOperand().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t p : getPermutation())
      composed.push_back(producer.getPermutation()[p]);
    setPermutation(composed);
    getOperandMutable().assign(producer.getOperand());
    return getResult();
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Expand
//===----------------------------------------------------------------------===//

ShardingRule ExpandOp::getShardingRule() {
  ShardingRule rule;
  Sizes in = getSizes(getOperand()), out = getSizes(getResult());
  Dims result = addDims(rule, out);
  rule.operands.push_back(broadcastDims(in, out, result));
  rule.results.push_back(result);
  rule.linear.push_back({{0}, true});
  return rule;
}

LogicalResult ExpandOp::verify() {
  Sizes in = getSizes(getOperand()), out = getSizes(getResult());
  if (elementTypeOf(getOperand()) != elementTypeOf(getResult()))
    return emitOpError("must not change the element type");
  bool fits = in.size() <= out.size();
  for (size_t i = 0; fits && i < in.size(); ++i)
    fits = in[i].isConstant(1) || in[i] == out[out.size() - in.size() + i];
  if (!fits)
    return emitOpError() << "cannot broadcast " << describe(in) << " to " << describe(out);
  return success();
}

OpFoldResult ExpandOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return {};
}

//===----------------------------------------------------------------------===//
// Slice
//===----------------------------------------------------------------------===//

bool SliceOp::preservesAllElements() { return false; }

ShardingRule SliceOp::getShardingRule() {
  int64_t dim = getDim();
  bool all = getStart().isConstant(0) && getStep() == 1 &&
             getSizes(getOperand())[dim] == getSizes(getResult())[dim];
  if (all)
    return movingRule(*this, {}, true, true);
  return movingRule(*this, {dim}, true, true);
}

LogicalResult SliceOp::verify() {
  Sizes in = getSizes(getOperand()), out = getSizes(getResult());
  if (failed(checkDim(*this, getOperand(), getDim(), "dim")))
    return failure();
  if (elementTypeOf(getOperand()) != elementTypeOf(getResult()))
    return emitOpError("must not change the element type");
  int64_t step = getStep();
  if (step == 0)
    return emitOpError("step must not be 0");
  if (failed(checkSize(*this, getStart(), "start")))
    return failure();
  bool same = in.size() == out.size();
  for (size_t i = 0; same && i < in.size(); ++i)
    same = i == getDim() || in[i] == out[i];
  if (!same)
    return emitOpError() << "must change only dimension " << getDim() << ", but changes "
                         << describe(in) << " to " << describe(out);
  // Static slices must be in bounds.
  auto begin = getStart().asConstant(), have = in[getDim()].asConstant(),
       count = out[getDim()].asConstant();
  if (begin && have && count && *count > 0) {
    int64_t last;
    if (__builtin_mul_overflow(*count - 1, step, &last) ||
        __builtin_add_overflow(last, *begin, &last) || *begin < 0 || last < 0 || *begin >= *have ||
        last >= *have)
      return emitOpError() << "takes " << *count << " elements from " << *begin << " with step "
                           << getStep() << ", but the dimension has only " << *have;
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getStart().isConstant(0) && getStep() == 1 && getOperand().getType() == getType())
    return getOperand();
  return {};
}

//===----------------------------------------------------------------------===//
// Concat
//===----------------------------------------------------------------------===//

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  ValueRange operands = adaptor.getOperands();
  if (operands.empty())
    return inferError(loc, "concat needs at least one operand");
  Sizes sizes = getSizes(operands[0]);
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= (int64_t)sizes.size())
    return inferError(loc, "dim " + Twine(dim) + " is not a dimension of " + describe(sizes));
  for (Value v : operands.drop_front()) {
    Sizes other = getSizes(v);
    bool fits = other.size() == sizes.size() && elementTypeOf(v) == elementTypeOf(operands[0]);
    for (size_t i = 0; fits && i < sizes.size(); ++i)
      fits = (int64_t)i == dim || other[i] == sizes[i];
    if (!fits)
      return inferError(loc, "cannot join " + describe(sizes) + " and " + describe(other) +
                                 " along dimension " + Twine(dim));
    sizes[dim] = sizes[dim] + other[dim];
  }
  types.push_back(makeTensorType(elementTypeOf(operands[0]), sizes));
  return success();
}
bool ConcatOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }
LogicalResult ConcatOp::verify() { return success(); }
ShardingRule ConcatOp::getShardingRule() {
  return movingRule(*this, {(int64_t)getDim()}, true, true);
}
OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getOperands().size() == 1 && getOperands()[0].getType() == getType())
    return getOperands()[0];
  return {};
}

//===----------------------------------------------------------------------===//
// Iota and Size
//===----------------------------------------------------------------------===//

ShardingRule IotaOp::getShardingRule() { return movingRule(*this, {}, false, false); }
LogicalResult IotaOp::verify() { return checkDim(*this, getResult(), getDim(), "dim"); }

ShardingRule SizeOp::getShardingRule() { return movingRule(*this, {}, false, false); }
LogicalResult SizeOp::verify() {
  if (rankOf(getResult()) != 0)
    return emitOpError("must have a scalar result (rank 0)");
  return checkSize(*this, getExpr(), "expr");
}

//===----------------------------------------------------------------------===//
// Gather, GatherND
//===----------------------------------------------------------------------===//

/// Returns the factor kind of an indexed dimension. For floats it is a reduction: elements of other
/// shards are zero. Integers and booleans are masks and indices, which are too small to split.
static FactorKind getLookupKind(Value data) {
  return isa<FloatType>(elementTypeOf(data)) ? FactorKind::ReductionSum : FactorKind::Unsplittable;
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Sizes data = getSizes(adaptor.getData());
  Sizes indices = getSizes(adaptor.getIndices());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= (int64_t)data.size())
    return inferError(loc, "dim " + Twine(dim) + " is not a dimension of " + describe(data));
  Sizes out(data.begin(), data.begin() + dim);
  llvm::append_range(out, indices);
  out.append(data.begin() + dim + 1, data.end());
  types.push_back(makeTensorType(elementTypeOf(adaptor.getData()), out));
  return success();
}
bool GatherOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }
LogicalResult GatherOp::verify() { return success(); }
SmallVector<int64_t> GatherOp::getLookupDims() { return {int64_t(getDim())}; }
ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule;
  int64_t dim = getDim();
  Dims data = addDims(rule, getSizes(getData()));
  Dims indices = addDims(rule, getSizes(getIndices()));
  FactorKind looked = getLookupKind(getData());
  rule.factors[data[dim][0]].kind = looked;
  Dims out(data.begin(), data.begin() + dim);
  llvm::append_range(out, indices);
  out.append(data.begin() + dim + 1, data.end());
  rule.operands = {data, indices};
  rule.results = {out};
  rule.linear.push_back({{0}, true});
  return rule;
}

LogicalResult GatherNDOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                           Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Sizes data = getSizes(adaptor.getData());
  Sizes indices = getSizes(adaptor.getIndices());
  int64_t batch = adaptor.getBatchDims();
  if (indices.empty() || batch < 0 || batch >= (int64_t)indices.size() ||
      batch > (int64_t)data.size())
    return inferError(loc, "batch_dims " + Twine(batch) + " must be at most the rank of data " +
                               describe(data) + " and less than the rank of indices " +
                               describe(indices));
  auto k = indices.back().asConstant();
  if (!k || *k < 0 || batch + *k > (int64_t)data.size())
    return inferError(loc, "the last dimension of indices " + describe(indices) +
                               " must be static and at most the rank of data " + describe(data) +
                               " without batch dimensions");
  for (int64_t i = 0; i < batch; ++i)
    if (data[i] != indices[i])
      return inferError(loc, "batch dimensions of data " + describe(data) + " and indices " +
                                 describe(indices) + " differ");
  Sizes out(indices.begin(), indices.end() - 1);
  out.append(data.begin() + batch + *k, data.end());
  types.push_back(makeTensorType(elementTypeOf(adaptor.getData()), out));
  return success();
}
bool GatherNDOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }
LogicalResult GatherNDOp::verify() { return success(); }
SmallVector<int64_t> GatherNDOp::getLookupDims() {
  int64_t first = getBatchDims(), count = *getSizes(getIndices()).back().asConstant();
  return llvm::to_vector(llvm::seq(first, first + count));
}
ShardingRule GatherNDOp::getShardingRule() {
  ShardingRule rule;
  Sizes sizes = getSizes(getIndices());
  int64_t batch = getBatchDims(), k = *sizes.back().asConstant();
  Dims indices = addDims(rule, sizes);
  rule.factors[indices.back()[0]].kind = FactorKind::Unsplittable;
  Dims data;
  for (auto [i, size] : llvm::enumerate(getSizes(getData()))) {
    if ((int64_t)i < batch)
      data.push_back(indices[i]);
    else
      data.push_back({rule.addFactor(size, (int64_t)i < batch + k ? getLookupKind(getData())
                                                                  : FactorKind::Parallel)});
  }
  Dims out(indices.begin(), indices.end() - 1);
  out.append(data.begin() + batch + k, data.end());
  rule.operands = {data, indices};
  rule.results = {out};
  rule.linear.push_back({{0}, true});
  return rule;
}

//===----------------------------------------------------------------------===//
// CumSum, Trilu
//===----------------------------------------------------------------------===//

LogicalResult CumSumOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  types.push_back(
      makeTensorType(elementTypeOf(adaptor.getOperand()), getSizes(adaptor.getOperand())));
  return success();
}
bool CumSumOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }
LogicalResult CumSumOp::verify() { return checkDim(*this, getOperand(), getDim(), "dim"); }
ShardingRule CumSumOp::getShardingRule() {
  return movingRule(*this, {(int64_t)getDim()}, true, false);
}

LogicalResult TriluOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  Sizes sizes = getSizes(adaptor.getOperand());
  if (sizes.size() < 2)
    return inferError(loc, "trilu needs at least two dimensions");
  types.push_back(makeTensorType(elementTypeOf(adaptor.getOperand()), sizes));
  return success();
}
bool TriluOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }
LogicalResult TriluOp::verify() { return checkSize(*this, getK(), "k"); }
ShardingRule TriluOp::getShardingRule() {
  int64_t rank = rankOf(getOperand());
  return movingRule(*this, {rank - 2, rank - 1}, true, false);
}
