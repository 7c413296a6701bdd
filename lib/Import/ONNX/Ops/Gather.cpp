//===- Gather.cpp - Gather, GatherND, GatherElements, NonZero -------------===//

#include "Fold.h"
#include "Importer.h"
#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static std::string nameOf(Node &n, const Tensor &table) {
  if (table.source && !table.source->name.empty())
    return "table " + table.source->name;
  return "the operand of node " + getSourceName(n.loc);
}

LogicalResult mlir::tpc::frontend::checkIndices(Node &n, const Tensor &indices, const Tensor &table,
                                                int64_t dim) {
  const SymExpr &size = table.shape[dim];
  std::optional<Interval> bounds = indices.interval;
  if (indices.contents) {
    for (const SymExpr &e : indices.contents->ints) {
      if (!bounds)
        bounds = Interval{e, e};
      bounds->low = SymExpr::min(bounds->low, e);
      bounds->high = SymExpr::max(bounds->high, e);
    }
  }
  if (!bounds)
    return success();
  std::string why = nameOf(n, table) + " has " + size.str() + " rows";
  // An empty range has a high bound below its low bound: 0 .. -1 is valid.
  if (!n.assumeNonNegative(size - SymExpr(1) - bounds->high, why) && !bounds->high.isConstant(-1))
    return n.error() << "takes index " << bounds->high.str() << " of a dimension of size "
                     << size.str();
  if (!n.assumeNonNegative(size + bounds->low, why))
    return n.error() << "takes index " << bounds->low.str() << " of a dimension of size "
                     << size.str();
  return success();
}

static LogicalResult importGather(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  const Tensor &data = n.in(0), &indices = n.in(1);
  if (!indices.isInt())
    return n.error() << "has indices of type " << indices.element << "; they must be integers";
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  const SymExpr &size = data.shape[*axis];
  Sizes sizes(data.shape.begin(), data.shape.begin() + *axis);
  sizes.append(indices.shape.begin(), indices.shape.end());
  sizes.append(data.shape.begin() + *axis + 1, data.shape.end());

  // Folds elements of a known vector at constant indices.
  if (data.rank() == 1 && data.contents && indices.contents) {
    Contents contents;
    contents.isFloat = data.contents->isFloat;
    bool known = true;
    for (const SymExpr &e : indices.contents->ints) {
      std::optional<int64_t> i = e.asConstant();
      int64_t count = data.contents->size();
      if (i && (*i < -count || *i >= count))
        return n.error() << "takes index " << *i << " of a vector of " << count << " elements";
      known &= i.has_value();
      if (!known)
        break;
      int64_t at = *i < 0 ? *i + count : *i;
      if (contents.isFloat)
        contents.floats.push_back(data.contents->floats[at]);
      else
        contents.ints.push_back(data.contents->ints[at]);
    }
    if (known)
      return n.resultContents(data.element, sizes, std::move(contents));
  }
  if (failed(checkIndices(n, indices, data, *axis)))
    return failure();

  // A gather with one constant index is a slice.
  if (std::optional<SymExpr> index = indices.scalarInt(); index && index->isConstant()) {
    SymExpr at = *index->asConstant() < 0 ? size + *index : *index;
    if (data.rank() == 1 && data.isInt() && data.value && data.value.getDefiningOp<IotaOp>()) {
      Contents contents;
      contents.ints.push_back(at);
      return n.resultContents(data.element, sizes, std::move(contents));
    }
    Tensor result = n.wrap(n.reshape(n.slice(n.operand(0), *axis, at, SymExpr(1)), sizes));
    result.interval = data.interval;
    return n.result(std::move(result));
  }
  Value table = n.operand(0), ids = n.operand(1);
  if (!table || !ids)
    return failure();
  RankedTensorType type = n.type(data.element, sizes);
  if (data.source && data.rank() == 2 && *axis == 0 && data.isFloat())
    return n.result(Value(EmbeddingOp::create(n.b, n.loc, type, table, ids)));
  Tensor result = n.wrap(GatherOp::create(n.b, n.loc, type, table, ids, *axis));
  result.interval = data.interval;
  return n.result(std::move(result));
}

static LogicalResult importGatherND(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  const Tensor &data = n.in(0), &indices = n.in(1);
  if (!indices.isInt())
    return n.error() << "has indices of type " << indices.element << "; they must be integers";
  int64_t batch = n.version < 12 ? 0 : n.getInt("batch_dims", 0);
  std::optional<int64_t> depth = indices.rank() ? indices.shape.back().asConstant() : std::nullopt;
  if (!depth || *depth < 1 || batch < 0 || batch >= indices.rank() || batch + *depth > data.rank())
    return n.error() << "picks from " << str(data.shape) << " by indices " << str(indices.shape)
                     << " with batch_dims = " << batch
                     << "; index tuples must have a constant length, of at most the rank of the "
                        "data without batch dimensions";
  // Checks tuples with known contents.
  for (int64_t i = 0; indices.contents && i < *depth; ++i) {
    Tensor column = indices;
    auto contents = std::make_shared<Contents>();
    for (size_t k = i; k < indices.contents->size(); k += *depth)
      contents->ints.push_back(indices.contents->ints[k]);
    column.contents = contents;
    column.interval.reset();
    if (failed(checkIndices(n, column, data, batch + i)))
      return failure();
  }
  Sizes sizes;
  for (int64_t i = 0; i < batch; ++i) {
    if (!n.equate(data.shape[i], indices.shape[i], "both are batch dimensions"))
      return failure();
    sizes.push_back(data.shape[i]);
  }
  sizes.append(indices.shape.begin() + batch, indices.shape.end() - 1);
  sizes.append(data.shape.begin() + batch + *depth, data.shape.end());
  Value table = n.operand(0), ids = n.operand(1);
  if (!table || !ids)
    return failure();
  return n.result(
      Value(GatherNDOp::create(n.b, n.loc, n.type(data.element, sizes), table, ids, batch)));
}

/// Imports out[i][j] = data[i][index[i][j]] as a GatherND: once `axis` is the last dimension, all
/// other dimensions are batch dimensions.
static LogicalResult importGatherElements(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  const Tensor &data = n.in(0), &indices = n.in(1);
  if (!indices.isInt() || indices.rank() != data.rank())
    return n.error() << "picks from " << str(data.shape) << " by indices " << str(indices.shape)
                     << " of type " << indices.element
                     << "; indices must be integers, of the rank of the data";
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  if (indices.contents && failed(checkIndices(n, indices, data, *axis)))
    return failure();
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < data.rank(); ++i)
    if (i != *axis)
      permutation.push_back(i);
  permutation.push_back(*axis);
  Value table = n.transpose(n.operand(0), permutation);
  Value ids = n.transpose(n.operand(1), permutation);
  if (!table || !ids)
    return failure();
  // Indices may be smaller than the data in the other dimensions.
  Sizes dataSizes = getSizes(table), idSizes = getSizes(ids);
  int64_t batch = data.rank() - 1;
  for (int64_t i = 0; i < batch; ++i) {
    if (dataSizes[i] == idSizes[i])
      continue;
    if (!n.assumeNonNegative(dataSizes[i] - idSizes[i],
                             "node " + getSourceName(n.loc) + " has fewer data than indices"))
      return n.error() << "has data " << str(data.shape) << " and indices " << str(indices.shape)
                       << "; indices must not be larger than the data";
    table = n.slice(table, i, SymExpr(0), idSizes[i]);
  }
  Sizes withDepth = idSizes;
  withDepth.push_back(SymExpr(1));
  ids = n.reshape(ids, withDepth);
  if (!table || !ids)
    return failure();
  Value picked = GatherNDOp::create(n.b, n.loc, n.type(data.element, idSizes), table, ids, batch);
  SmallVector<int64_t> back(data.rank());
  for (auto [to, from] : llvm::enumerate(permutation))
    back[from] = to;
  return n.result(n.transpose(picked, back));
}

/// Imports NonZero of a tensor without zeros as all positions, [rank, count]. torch.onnx writes
/// arange this way up to opset 10.
static LogicalResult importAllPositions(Node &n, const Tensor &x) {
  Type element = n.b.getI64Type();
  SmallVector<Value> rows;
  for (int64_t d = 0; d < x.rank(); ++d)
    rows.push_back(n.reshape(IotaOp::create(n.b, n.loc, n.type(element, x.shape), d),
                             {SymExpr(1), product(x.shape)}));
  Tensor result = n.wrap(n.concat(rows, 0));
  SymExpr high(0);
  for (const SymExpr &size : x.shape)
    high = SymExpr::max(high, size - SymExpr(1));
  if (x.rank() == 1)
    high = x.shape[0] - SymExpr(1);
  result.interval = Interval{SymExpr(0), high};
  return n.result(std::move(result));
}

/// Imports NonZero as the positions of non-zero elements, [rank, count]. The size of the result
/// depends on contents, so they must be known; torch.onnx writes repeat_interleave this way.
static LogicalResult importNonZero(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  const Tensor &x = n.in(0);
  auto isKnown = [](const SymExpr &e) {
    return e.isConstant() || foldCompare(Predicate::NE, e, 0);
  };
  if (!x.contents && x.interval && x.rank() > 0 &&
      (x.interval->low.lowerBound().value_or(0) > 0 ||
       (-x.interval->high).lowerBound().value_or(0) > 0))
    return importAllPositions(n, x);
  if (!x.contents || (!x.contents->isFloat && !llvm::all_of(x.contents->ints, isKnown)))
    return n.error() << "has a result whose size depends on values of its input, which are not "
                        "known while importing";
  SmallVector<int64_t> sizes;
  for (const SymExpr &size : x.shape)
    sizes.push_back(*size.asConstant());
  if (sizes.empty()) // a scalar counts as one dimension
    sizes.push_back(1);
  SmallVector<SmallVector<int64_t>> positions;
  for (size_t i = 0; i < x.contents->size(); ++i) {
    if (x.contents->isFloat ? x.contents->floats[i] == 0 : x.contents->ints[i].isConstant(0))
      continue;
    SmallVector<int64_t> position(sizes.size());
    int64_t rest = i;
    for (int64_t d = int64_t(sizes.size()) - 1; d >= 0; --d) {
      position[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    positions.push_back(std::move(position));
  }
  Contents contents;
  for (size_t d = 0; d < sizes.size(); ++d)
    for (const auto &position : positions)
      contents.ints.push_back(SymExpr(position[d]));
  return n.resultContents(n.b.getI64Type(), {SymExpr(sizes.size()), SymExpr(positions.size())},
                          std::move(contents));
}

void mlir::tpc::frontend::addGatherOps(OpTable &t) {
  t.add("Gather", {1, 11, 13}, importGather,
        "integer indices, in range where their bounds are known");
  t.add("NonZero", {9, 13}, importNonZero,
        "input known while importing, or without zeros, such as ConstantOfShape of 1");
  t.add("GatherND", {11, 12, 13}, importGatherND, "integer index tuples of static length");
  t.add("GatherElements", {11, 13}, importGatherElements,
        "integer indices of the rank of the data");
}
