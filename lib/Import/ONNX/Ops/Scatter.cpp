//===- Scatter.cpp - ScatterND as assignment to a box or rows -------------===//
//
// torch.onnx writes `x[:, :, 1:3] = v` as a ScatterND with indices made of Ranges, one per
// dimension. The indices cover a box of x, each position once. The result is v surrounded by the
// rest of x, or v alone if the box covers x (as in masks that Hugging Face transformers pads).
// Positions that depend on data are compared with the positions of the result.
//
//===----------------------------------------------------------------------===//

#include "OpTable.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
/// Extent of the box along one dimension. `index` is the dimension of the indices that varies along
/// it, or none if the extent is one position.
struct Extent {
  SymExpr start, size = 1;
  std::optional<unsigned> index = std::nullopt;
};
} // namespace

/// Returns the extent of coordinate `k` over all index tuples: one position, or consecutive
/// positions along one dimension of the indices.
static std::optional<Extent> findExtent(IndexAnalysis &analysis, Value indices, int64_t k) {
  SmallVector<IndexExpr> where(analysis.getIndices());
  where.push_back(IndexExpr::integer(k));
  IndexExpr position = analysis.at(indices, where);
  if (!position || !position.isInteger())
    return std::nullopt;
  Extent extent;
  extent.start = position.getPolynomial();
  SmallVector<SymExpr> sizes = getSizes(indices);
  for (unsigned d = 0; d + 1 < sizes.size(); ++d) {
    std::string name = IndexAnalysis::indexName(d);
    auto linear = IndexAnalysis::linearIn(extent.start, name);
    if (!linear)
      return std::nullopt;
    if (linear->first.isConstant(0))
      continue;
    if (!linear->first.isConstant(1) || extent.index)
      return std::nullopt;
    extent.index = d;
    extent.size = sizes[d];
    extent.start = linear->second;
  }
  return IndexAnalysis::isSize(extent.start) ? std::optional(extent) : std::nullopt;
}

/// Returns the extent for indices with known contents.
static std::optional<Extent> findKnownExtent(const Tensor &indices, int64_t k) {
  SmallVector<int64_t> sizes, strides(indices.rank() - 1, 1);
  for (const SymExpr &size : indices.shape)
    sizes.push_back(*size.asConstant());
  int64_t depth = sizes.pop_back_val();
  for (size_t d = strides.size(); d-- > 1;)
    strides[d - 1] = strides[d] * sizes[d];
  const std::vector<SymExpr> &all = indices.contents->ints;
  if (all.empty())
    return std::nullopt;
  auto at = [&](int64_t tuple) -> const SymExpr & { return all[tuple * depth + k]; };
  Extent extent{.start = at(0)};
  for (unsigned d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 2 || at(strides[d]) == extent.start)
      continue;
    if (extent.index)
      return std::nullopt;
    extent.index = d;
    extent.size = sizes[d];
  }
  for (int64_t tuple = 0; tuple < int64_t(all.size()) / depth; ++tuple) {
    int64_t step = extent.index ? tuple / strides[*extent.index] % sizes[*extent.index] : 0;
    if (at(tuple) != extent.start + SymExpr(step))
      return std::nullopt;
  }
  return extent;
}

/// Normalizes negative positions, which count from the end. Fails unless all positions are provably
/// within the dimension.
static LogicalResult checkExtent(Node &n, Extent &extent, const SymExpr &size) {
  std::string what = "assigns to " + extent.size.str() + " positions from " + extent.start.str() +
                     " on of a dimension of size " + size.str();
  // All positions are negative for all sizes, such as -s, or the 2 positions from -2.
  SymExpr end = extent.start + extent.size;
  std::optional<int64_t> below = (-extent.start).lowerBound(1), lower = (-end).lowerBound(1);
  if (below && *below >= 1 && lower && *lower >= 0)
    extent.start = size + extent.start;
  std::string why = "node " + getSourceName(n.loc) + " " + what;
  if (!n.assumeNonNegative(extent.start, why) ||
      !n.assumeNonNegative(size - extent.start - extent.size, why))
    return n.error() << what << ": they may be outside of the dimension";
  return success();
}

/// Returns `data` with `updates`, which has the sizes of the box, combined into the box; processes
/// dimensions `dim` and later.
static Value assign(Node &n, Value data, Value updates, ArrayRef<Extent> box, unsigned dim,
                    llvm::function_ref<Value(Value, Value)> combine) {
  if (!data || !updates)
    return {};
  SmallVector<SymExpr> sizes = getSizes(data);
  for (; dim < box.size(); ++dim) {
    const auto &[start, size, index] = box[dim];
    if (start.isConstant(0) && size == sizes[dim])
      continue;
    SymExpr end = start + size;
    SmallVector<Value> parts;
    if (!start.isConstant(0))
      parts.push_back(n.slice(data, dim, SymExpr(0), start));
    parts.push_back(assign(n, n.slice(data, dim, start, size), updates, box, dim + 1, combine));
    if (end != sizes[dim])
      parts.push_back(n.slice(data, dim, end, sizes[dim] - end));
    return n.concat(parts, dim);
  }
  return combine(data, updates);
}

/// Returns the function that combines an old element and an update.
static FailureOr<std::function<Value(Value, Value)>> findReduction(Node &n) {
  std::string reduction = n.version < 16 ? "none" : n.getString("reduction", "none");
  if (reduction == "none")
    return std::function([](Value, Value update) { return update; });
  if (reduction == "add")
    return std::function([&n](Value a, Value b) { return n.binary<AddOp>(a, b); });
  if (reduction == "mul")
    return std::function([&n](Value a, Value b) { return n.binary<MulOp>(a, b); });
  if (n.version >= 18 && reduction == "max")
    return std::function([&n](Value a, Value b) { return n.binary<MaxOp>(a, b); });
  if (n.version >= 18 && reduction == "min")
    return std::function([&n](Value a, Value b) { return n.binary<MinOp>(a, b); });
  return n.error() << "has reduction = '" << reduction
                   << "'; it must be none, add or mul or, from opset 18 on, max or min",
         failure();
}

/// Maximum number of index tuples that are assigned one after the other; each is a select.
static constexpr int64_t kMaxTuples = 64;

/// Assigns updates one after the other to positions that depend on data. `indices` is
/// [count, depth], `updates` [count, rest of the data's dimensions].
static Value assignEach(Node &n, Value data, Value indices, Value updates, int64_t count,
                        int64_t depth, llvm::function_ref<Value(Value, Value)> combine) {
  Sizes sizes = getSizes(data);
  int64_t rank = sizes.size();
  SmallVector<Value> columns;
  for (int64_t k = 0; k < depth; ++k)
    columns.push_back(
        n.checkedIndex(n.slice(indices, 1, SymExpr(k), SymExpr(1)), sizes[k], /*wraps=*/true));
  Sizes one(depth, SymExpr(1)), ones(rank, SymExpr(1));
  one.append(sizes.begin() + depth, sizes.end());
  for (int64_t i = 0; i < count && data; ++i) {
    Value mine;
    for (auto [k, column] : llvm::enumerate(columns)) {
      Value at = n.reshape(n.slice(column, 0, SymExpr(i), SymExpr(1)), ones);
      Value same = n.compare(Predicate::EQ, n.iota(sizes[k], k, rank), at);
      mine = mine ? n.binary<AndOp>(mine, same) : same;
    }
    Value update = n.reshape(n.slice(updates, 0, SymExpr(i), SymExpr(1)), one);
    data = n.select(mine, combine(data, update), data);
  }
  return data;
}

/// Assigns rows: row j of the result is the last update whose index is j, or row j of the data. It
/// is looked up in the concatenation of both.
static Value assignRows(Node &n, Value data, Value indices, Value updates) {
  Sizes sizes = getSizes(data);
  SymExpr count = getSizes(updates)[0];
  Value at = n.checkedIndex(indices, sizes[0], /*wraps=*/true); // [count, 1]
  Value row = n.iota(sizes[0], 1, 2);
  Value hits = n.cast(n.compare(Predicate::EQ, row, at), n.b.getI32Type());
  Value any = n.reduce(ReduceFunction::Max, hits, {0}, /*keep=*/false);
  Value last = n.argExtreme(ReduceFunction::Max, hits, 0, /*keep=*/false, /*last=*/true);
  if (!any || !last)
    return {};
  Value isAssigned = n.compare(Predicate::GT, any, n.scalar(0, any));
  Type index = elementOf(last);
  Value from = n.select(isAssigned, n.binary<AddOp>(last, n.size(sizes[0], index)),
                        n.cast(n.iota(sizes[0], 0, 1), index));
  Value table = n.concat({data, updates}, 0);
  if (!from || !table)
    return {};
  return GatherOp::create(n.b, n.loc, n.type(elementOf(data), sizes), table, from, 0);
}

/// Assigns to positions that depend on data, or to which several updates are assigned.
static LogicalResult assignByData(Node &n, int64_t depth,
                                  llvm::function_ref<Value(Value, Value)> combine, bool replaces,
                                  const std::string &why) {
  const Tensor &data = n.in(0), &indices = n.in(1);
  SymExpr count = product(ArrayRef(indices.shape).drop_back());
  Sizes rows{count};
  rows.append(data.shape.begin() + depth, data.shape.end());
  Value at = n.cast(n.reshape(n.operand(1), {count, SymExpr(depth)}), n.b.getI64Type());
  Value updates = n.reshape(n.operand(2), rows);
  if (!at || !updates)
    return failure();
  std::optional<int64_t> known = count.asConstant();
  if (known && *known <= kMaxTuples)
    return n.result(assignEach(n, n.operand(0), at, updates, *known, depth, combine));
  if (depth == 1 && replaces)
    return n.result(assignRows(n, n.operand(0), at, updates));
  return n.error() << why;
}

static LogicalResult importScatterND(Node &n) {
  if (failed(n.expectInputs(3)))
    return failure();
  const Tensor &data = n.in(0), &indices = n.in(1), &updates = n.in(2);
  auto depth = indices.rank() ? indices.shape.back().asConstant() : std::nullopt;
  if (!indices.isInt() || !depth || *depth < 1 || *depth > data.rank())
    return n.error() << "assigns to positions of " << str(data.shape) << " by indices "
                     << str(indices.shape) << " of type " << indices.element
                     << "; index tuples must be integers of a constant length, of at most the rank "
                        "of the data";
  if (updates.element != data.element)
    return n.error() << "assigns elements of type " << updates.element << " to a tensor of "
                     << data.element << "; the types must be the same";
  Sizes wanted(indices.shape.begin(), indices.shape.end() - 1);
  wanted.append(data.shape.begin() + *depth, data.shape.end());
  if (wanted.size() != updates.shape.size())
    return n.error() << "assigns " << str(updates.shape) << " where its indices "
                     << str(indices.shape) << " select positions for " << str(wanted);
  for (auto [size, given] : llvm::zip(wanted, updates.shape))
    if (!n.equate(size, given, "the numbers of index tuples and of updates"))
      return failure();
  auto combine = findReduction(n);
  Value positions = n.operand(1);
  if (failed(combine) || !positions)
    return failure();

  if (product(ArrayRef(wanted)).isConstant(0))
    return n.result(n.in(0)); // no assignment
  auto byData = [&](const std::string &why) {
    bool replaces = n.version < 16 || n.getString("reduction", "none") == "none";
    return assignByData(n, *depth, *combine, replaces, why);
  };
  SmallVector<SymExpr> counts = getSizes(positions);
  IndexAnalysis analysis(ArrayRef(counts).drop_back());
  SmallVector<Extent> box;
  std::optional<unsigned> last;
  Sizes sizes;
  for (int64_t k = 0; k < *depth; ++k) {
    std::optional<Extent> extent =
        indices.contents ? findKnownExtent(indices, k) : findExtent(analysis, positions, k);
    if (extent && extent->index) {
      if (last && *extent->index <= *last)
        extent.reset();
      else
        last = extent->index;
    }
    if (!extent)
      return byData("assigns to positions that depend on values, or that are not a box of its "
                    "operand (x[2:n] = y is one): coordinate " +
                    std::to_string(k) +
                    " of its indices is not known while importing. tpc assigns whole rows, or at "
                    "most " +
                    std::to_string(kMaxTuples) +
                    " positions. Export the model again without it, for instance with another "
                    "attention implementation");
    if (failed(checkExtent(n, *extent, data.shape[k])))
      return failure();
    sizes.push_back(extent->size);
    box.push_back(*extent);
  }
  for (auto [d, size] : llvm::enumerate(ArrayRef(indices.shape).drop_back()))
    if (!size.isConstant(1) && llvm::none_of(box, [&](const Extent &e) { return e.index == d; }))
      return byData("assigns more than once to the same positions; tpc does so for at most " +
                    std::to_string(kMaxTuples) + " positions");
  sizes.append(data.shape.begin() + *depth, data.shape.end());
  return n.result(assign(n, n.operand(0), n.reshape(n.operand(2), sizes), box, 0, *combine));
}

void mlir::tpc::frontend::addScatterOps(OpTable &t) {
  t.add("ScatterND", {11, 13, 16, 18}, importScatterND,
        "indices known while importing, of a box; others: at most 64 positions, or rows with "
        "reduction none; reduction none, add, mul; from opset 18 max, min");
}
