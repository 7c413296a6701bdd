//===- SimplifyGathers.cpp - Simplification of gathers --------------------===//

#include "Movement.h"
#include "Simplify.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Analysis/Index/Splats.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Returns the elements of constant indices, row-major; nothing if they are not constant.
std::optional<SmallVector<int64_t>> getConstantIndices(Value indices) {
  auto count = product(getSizes(indices)).asConstant();
  if (auto splat = getSplat(indices); splat && count && *count > 0 && *count <= 1 << 20)
    return SmallVector<int64_t>(*count, static_cast<int64_t>(*splat));
  auto constant = indices.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || dense.empty())
    return std::nullopt;
  SmallVector<int64_t> list;
  for (const llvm::APInt &value : dense.getValues<llvm::APInt>())
    list.push_back(value.getSExtValue());
  return list;
}

/// Converts indices to count from the front. Returns false if one is out of bounds.
bool makeNonNegative(MutableArrayRef<int64_t> indices, int64_t size) {
  for (int64_t &i : indices)
    i += i < 0 ? size : 0;
  return llvm::all_of(indices, [&](int64_t i) { return i >= 0 && i < size; });
}

/// Converts a gather of constant, evenly spaced indices to a slice. With one index, the slice's
/// dimension is removed.
struct GatherToSlice : public OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    int64_t dim = op.getDim();
    auto n = getSizes(op.getData())[dim].asConstant();
    auto list = getConstantIndices(op.getIndices());
    if (!n || !list || !makeNonNegative(*list, *n))
      return failure();
    int64_t step = list->size() > 1 ? (*list)[1] - (*list)[0] : 1;
    for (size_t i = 1; i < list->size(); ++i)
      if ((*list)[i] - (*list)[i - 1] != step)
        return failure();
    if (step == 0)
      return failure();
    Value v = createSlice(rewriter, op.getLoc(), op.getData(), dim, SymExpr(list->front()),
                          SymExpr(list->size()), step);
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), v, getSizes(op.getResult())));
    return success();
  }
};

/// Simplifies constant tuples, as torch.export writes `qkv[:, :, [-2]]`. A coordinate that is equal
/// in all tuples becomes a slice; if one coordinate remains, it becomes a gather.
struct GatherNDToSlice : public OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    SmallVector<SymExpr> sizes = getSizes(op.getData()), tuples = getSizes(op.getIndices());
    int64_t batch = op.getBatchDims(), depth = *tuples.pop_back_val().asConstant();
    auto list = getConstantIndices(op.getIndices());
    if (!list || depth == 0)
      return failure();
    // Value of each coordinate if all tuples agree, else nothing.
    SmallVector<std::optional<int64_t>> shared;
    SmallVector<int64_t> other;
    for (int64_t k = 0; k < depth; ++k) {
      SmallVector<int64_t> column;
      for (size_t i = k; i < list->size(); i += depth)
        column.push_back((*list)[i]);
      auto size = sizes[batch + k].asConstant();
      if (!size || !makeNonNegative(column, *size))
        return failure();
      shared.push_back(llvm::all_equal(column) ? std::optional(column.front()) : std::nullopt);
      if (!shared.back())
        other = column;
    }
    int64_t left = llvm::count(shared, std::nullopt);
    if (left > 1 || (left == 1 && batch > 0))
      return failure();

    Value v = op.getData();
    SmallVector<SymExpr> rest(sizes.begin(), sizes.begin() + batch);
    for (auto [k, index] : llvm::enumerate(shared)) {
      if (index)
        v = createSlice(rewriter, loc, v, batch + k, SymExpr(*index), SymExpr(1));
      else
        rest.push_back(sizes[batch + k]);
    }
    if (left == 1) {
      rest.append(sizes.begin() + batch + depth, sizes.end());
      SmallVector<int64_t> shape;
      for (const SymExpr &size : tuples)
        shape.push_back(*size.asConstant());
      auto type = RankedTensorType::get(shape, rewriter.getI64Type());
      Value indices = ConstantOp::create(rewriter, loc, type,
                                         DenseElementsAttr::get(type, ArrayRef<int64_t>(other)));
      rewriter.replaceOpWithNewOp<GatherOp>(op, op.getResult().getType(),
                                            createReshape(rewriter, loc, v, rest), indices, 0);
      return success();
    }
    // All tuples are equal.
    rest.append(tuples.size() - batch, SymExpr(1));
    rest.append(sizes.begin() + batch + depth, sizes.end());
    v = createReshape(rewriter, loc, v, rest);
    rewriter.replaceOp(op, createExpand(rewriter, loc, v, getSizes(op.getResult())));
    return success();
  }
};

/// Folds tuples of all positions in order, as torch.onnx writes repeat_interleave, to the flattened
/// data.
struct GatherAllInOrder : public OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    SmallVector<SymExpr> sizes = getSizes(op.getData()), tuples = getSizes(op.getIndices());
    int64_t batch = op.getBatchDims(), depth = *tuples.back().asConstant();
    auto list = getConstantIndices(op.getIndices());
    if (batch != 0 || depth == 0 || !list)
      return failure();
    auto all = product(ArrayRef(sizes).take_front(depth)).asConstant();
    if (!all || int64_t(list->size()) != *all * depth)
      return failure();
    for (int64_t i = 0; i < *all; ++i) {
      int64_t position = 0;
      for (int64_t k = 0; k < depth; ++k) {
        int64_t size = *sizes[k].asConstant(), own = (*list)[i * depth + k];
        if (own < -size || own >= size)
          return failure();
        position = position * size + (own < 0 ? own + size : own);
      }
      if (position != i)
        return failure();
    }
    rewriter.replaceOp(
        op, createReshape(rewriter, op.getLoc(), op.getData(), getSizes(op.getResult())));
    return success();
  }
};

/// Folds a gather of each element from its own position, as torch.export writes `mask[rows,
/// columns]`.
struct DropGatherND : public OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    auto count = getSizes(op.getIndices()).back().asConstant();
    if (getSizes(op.getData()) != sizes || !count ||
        static_cast<int64_t>(op.getBatchDims()) + *count + 1 != rankOf(op.getIndices()))
      return failure();
    IndexAnalysis analysis(sizes);
    for (int64_t k = 0; k < *count; ++k) {
      SmallVector<IndexExpr> where(analysis.getIndices().take_front(op.getBatchDims() + *count));
      IndexExpr own = where[op.getBatchDims() + k];
      where.push_back(IndexExpr::integer(k));
      IndexExpr index = analysis.at(op.getIndices(), where);
      if (!index || !(index == own))
        return failure();
    }
    rewriter.replaceOp(op, op.getData());
    return success();
  }
};

/// Tensor whose dimensions are indexed by dimensions `dims` of the result, or by the row index.
struct IndexedTensor {
  Value tensor = {}; // null: the index of dims[0]
  SmallVector<unsigned> dims = {};
  SmallVector<int64_t> columns = {}; // of the tensor, per entry of `dims`
  std::optional<int64_t> row = {};
  SymExpr addend = 0; // added to each index

  static std::optional<IndexedTensor> match(Value tensor, ArrayRef<IndexExpr> where,
                                            ArrayRef<SymExpr> sizes, const IndexExpr *row) {
    IndexedTensor result{.tensor = tensor};
    for (auto [d, index] : llvm::enumerate(where)) {
      if (!index.isInteger())
        return std::nullopt;
      const SymExpr &position = index.getPolynomial();
      if (position.isConstant(0) && getSizes(tensor)[d].isConstant(1))
        continue;
      if (row && index == *row && !result.row) {
        result.row = d;
        continue;
      }
      std::optional<unsigned> dim;
      for (unsigned k = 0; k < sizes.size(); ++k)
        if (position == SymExpr::symbol(IndexAnalysis::indexName(k)))
          dim = k;
      if (!dim || llvm::is_contained(result.dims, *dim))
        return std::nullopt;
      result.dims.push_back(*dim);
      result.columns.push_back(d);
    }
    return row && !result.row ? std::nullopt : std::optional(result);
  }

  /// Builds [rows (if counted), dims]. Slices dimensions of which only a range is indexed, and
  /// drops dimensions of size one.
  Value build(OpBuilder &builder, Location loc, Type element, ArrayRef<SymExpr> sizes,
              const SymExpr &rows = 0) const {
    Value v = tensor;
    if (!v) {
      v = IotaOp::create(builder, loc, makeTensorType(element, {sizes[dims[0]]}), 0);
    } else {
      SmallVector<int64_t> order;
      SmallVector<SymExpr> shape;
      auto take = [&](int64_t d, const SymExpr &size) {
        v = createSlice(builder, loc, v, d, SymExpr(0), size);
        order.push_back(d);
        shape.push_back(size);
      };
      if (row)
        take(*row, rows);
      for (auto [d, dim] : llvm::zip(columns, dims))
        take(d, sizes[dim]);
      for (int64_t d = 0; d < rankOf(tensor); ++d)
        if (!llvm::is_contained(order, d))
          order.push_back(d);
      v = createReshape(builder, loc, createTranspose(builder, loc, v, order), shape);
    }
    if (addend.isConstant(0))
      return v;
    auto scalar = RankedTensorType::get({}, elementTypeOf(v));
    return AddOp::create(builder, loc, v.getType(), v,
                         SizeOp::create(builder, loc, scalar, addend));
  }
};

/// Converts a gather by tuples of one coordinate to a gather of table rows, if the data are a table
/// that is broadcast along the other dimensions (torch.gather of GPT-J, tables of CodeGen).
///
///   out[b, c, s] = data[b, c, ids[b, c, s]]
///   data[b, c, p] = table[p, c]       ids[b, c, s] = rows[b, s]
///   out = transpose(gather table, rows)       [b, s, c] -> [b, c, s]
struct GatherNDToGather : public OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Matches the row: an index of the result or an integer of a tensor, plus a size.
  static std::optional<IndexedTensor> matchRows(IndexAnalysis &analysis, const IndexExpr &position,
                                                ArrayRef<SymExpr> sizes) {
    std::set<std::string> symbols;
    position.getPolynomial().collectSymbols(symbols);
    std::optional<IndexedTensor> rows;
    for (const std::string &name : symbols) {
      std::optional<IndexedTensor> own;
      if (const IndexExpr *element = analysis.getElement(name))
        own = IndexedTensor::match(element->getTensor(), element->getArgs(), sizes, nullptr);
      for (unsigned k = 0; k < sizes.size(); ++k)
        if (name == IndexAnalysis::indexName(k))
          own = IndexedTensor{.dims = {k}};
      if (!own && IndexAnalysis::isSize(SymExpr::symbol(name)))
        continue;
      if (!own || rows)
        return std::nullopt;
      rows = own;
      rows->addend = position.getPolynomial() - SymExpr::symbol(name);
      std::set<std::string> rest;
      rows->addend.collectSymbols(rest);
      if (rest.count(name))
        return std::nullopt;
    }
    return rows;
  }

  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    SmallVector<SymExpr> sizes = getSizes(op.getResult()), data = getSizes(op.getData());
    unsigned batch = op.getBatchDims(), tuples = rankOf(op.getIndices()) - 1;
    if (!getSizes(op.getIndices()).back().isConstant(1) || !isFloatTensor(op.getData()))
      return failure();
    IndexAnalysis analysis(sizes);
    ArrayRef<IndexExpr> indices = analysis.getIndices();
    SmallVector<IndexExpr> where(indices.take_front(tuples));
    where.push_back(IndexExpr::integer(0));
    IndexExpr position = analysis.at(op.getIndices(), where);
    IndexExpr row = analysis.freshIndex(data[batch]);
    where.assign(indices.begin(), indices.begin() + batch);
    where.push_back(row);
    llvm::append_range(where, indices.drop_front(tuples));
    IndexExpr element = analysis.at(op.getData(), where);
    if (!position || !position.isInteger() || !element ||
        element.getKind() != IndexExpr::Kind::Element || element.isNegated())
      return failure();
    auto table = IndexedTensor::match(element.getTensor(), element.getArgs(), sizes, &row);
    auto rows = matchRows(analysis, position, sizes);
    if (!table || !rows ||
        llvm::any_of(table->dims, [&](unsigned d) { return llvm::is_contained(rows->dims, d); }))
      return failure();

    SmallVector<unsigned> dims = rows->dims;
    llvm::append_range(dims, table->dims);
    SmallVector<SymExpr> found = llvm::map_to_vector(dims, [&](unsigned d) { return sizes[d]; });
    Type number = elementTypeOf(op.getResult()), integer = elementTypeOf(op.getIndices());
    Value v = GatherOp::create(rewriter, loc, makeTensorType(number, found),
                               table->build(rewriter, loc, number, sizes, data[batch]),
                               rows->build(rewriter, loc, integer, sizes), uint64_t(0));
    // Restores the order of dimensions; dimensions that are not indexed are broadcast.
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
    llvm::sort(order, [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
    v = createTranspose(rewriter, loc, v, order);
    SmallVector<SymExpr> shape(sizes.size(), SymExpr(1));
    for (unsigned d : dims)
      shape[d] = sizes[d];
    rewriter.replaceOp(op,
                       createExpand(rewriter, loc, createReshape(rewriter, loc, v, shape), sizes));
    return success();
  }
};

} // namespace

void mlir::tpc::populateGatherPatterns(RewritePatternSet &patterns) {
  patterns.add<GatherToSlice, GatherNDToSlice, GatherAllInOrder, DropGatherND, GatherNDToGather>(
      patterns.getContext());
}
