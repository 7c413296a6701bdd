//===- SimplifyMovement.cpp - Chains of ops that move elements ------------===//

#include "Constants.h"
#include "Movement.h"
#include "Simplify.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// A chain of reshapes and transposes that fewer of them can do.
struct ShortenChain : public RewritePattern {
  ShortenChain(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<ReshapeOp, TransposeOp>(op))
      return failure();
    Movement movement = Movement::of(op->getResult(0));
    if (movement.length == 0 || movement.cost() >= movement.length)
      return failure();
    rewriter.replaceOp(op, movement.build(rewriter, op->getLoc()));
    return success();
  }
};

/// Transposes, slices and reshapes of parameters are views.
struct FoldIntoView : public RewritePattern {
  FoldIntoView(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 2, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<ReshapeOp, TransposeOp, SliceOp>(op))
      return failure();
    auto parameter = op->getOperand(0).getDefiningOp<ParameterOp>();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (!parameter || !type.hasStaticShape())
      return failure();
    ViewAttr view = parameter.getViewOrDense(), result;
    if (!view)
      return failure();
    if (isa<ReshapeOp>(op)) {
      result = view.reshape(type.getShape());
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      result = view.transpose(transpose.getPermutation());
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      if (auto from = slice.getStart().asConstant())
        result =
            view.slice(slice.getDim(), *from, type.getDimSize(slice.getDim()), slice.getStep());
    }
    if (!result)
      return failure();
    auto v = ParameterOp::create(rewriter, parameter.getLoc(),
                                 RankedTensorType::get(type.getShape(), type.getElementType()),
                                 parameter.getWeightAttr(), result);
    rewriter.replaceOp(op, v);
    return success();
  }
};

struct ExpandOfExpand : public OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<ExpandOp>();
    if (!inner)
      return failure();
    rewriter.replaceOp(
        op, createExpand(rewriter, op.getLoc(), inner.getOperand(), getSizes(op.getResult())));
    return success();
  }
};

/// Indices along a dimension, broadcast over others.
struct ExpandOfIota : public OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getOperand());
    auto iota = movement.base.getDefiningOp<IotaOp>();
    if (!iota)
      return failure();
    // The dimension must have come through whole, and be all that is counted.
    const Movement::Dim &counted = movement.baseDims[iota.getDim()];
    for (auto [d, dim] : llvm::enumerate(movement.dims))
      if (!counted.empty() && dim == counted) {
        int64_t shift = rankOf(op.getResult()) - movement.dims.size();
        rewriter.replaceOpWithNewOp<IotaOp>(op, op.getResult().getType(), d + shift);
        return success();
      }
    return failure();
  }
};

struct SliceOfSlice : public OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<SliceOp>();
    if (!inner || inner.getDim() != op.getDim())
      return failure();
    int64_t step;
    if (__builtin_mul_overflow((int64_t)op.getStep(), (int64_t)inner.getStep(), &step))
      return failure();
    rewriter.replaceOp(op, createSlice(rewriter, op.getLoc(), inner.getOperand(), op.getDim(),
                                       inner.getStart() + op.getStart() * SymExpr(inner.getStep()),
                                       getSizes(op.getResult())[op.getDim()], step));
    return success();
  }
};

/// A slice that lies within one operand of a concatenation.
struct SliceOfConcat : public OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getOperand().getDefiningOp<ConcatOp>();
    SymExpr start = op.getStart();
    if (!concat || concat.getDim() != op.getDim() || op.getStep() != 1)
      return failure();
    int64_t dim = op.getDim();
    SymExpr size = getSizes(op.getResult())[dim], begin(0);
    for (Value operand : concat.getOperands()) {
      SymExpr end = begin + getSizes(operand)[dim];
      auto before = (start - begin).lowerBound(), after = (end - start - size).lowerBound();
      if (before && *before >= 0 && after && *after >= 0) {
        rewriter.replaceOp(op,
                           createSlice(rewriter, op.getLoc(), operand, dim, start - begin, size));
        return success();
      }
      begin = end;
    }
    return failure();
  }
};

/// The elements of constant indices, row-major; nothing where they are not known.
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

/// Counts indices from the front. False where one is outside of the `size` that there are.
bool makeNonNegative(MutableArrayRef<int64_t> indices, int64_t size) {
  for (int64_t &i : indices)
    i += i < 0 ? size : 0;
  return llvm::all_of(indices, [&](int64_t i) { return i >= 0 && i < size; });
}

/// A gather of constant, evenly spaced indices is a slice; of one index, a
/// slice without its dimension.
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

/// Constant tuples, as torch.export writes `qkv[:, :, [-2]]`: a coordinate that is the same in all
/// of them is a slice. If one coordinate is left, it is a gather.
struct GatherNDToSlice : public OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    SmallVector<SymExpr> sizes = getSizes(op.getData()), tuples = getSizes(op.getIndices());
    int64_t batch = op.getBatchDims(), depth = *tuples.pop_back_val().asConstant();
    auto list = getConstantIndices(op.getIndices());
    if (!list || depth == 0)
      return failure();
    // What each coordinate is in all tuples; of one that differs, nothing.
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
    // The same for all tuples.
    rest.append(tuples.size() - batch, SymExpr(1));
    rest.append(sizes.begin() + batch + depth, sizes.end());
    v = createReshape(rewriter, loc, v, rest);
    rewriter.replaceOp(op, createExpand(rewriter, loc, v, getSizes(op.getResult())));
    return success();
  }
};

/// A gather of each element from its own place, as torch.export writes `mask[rows, columns]`.
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

/// An element-wise op broadcasts by itself.
struct DropExpand : public OpInterfaceRewritePattern<ScalarOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ScalarOpInterface op, PatternRewriter &rewriter) const override {
    if (op->getNumOperands() < 2)
      return failure();
    SmallVector<SymExpr> result = getSizes(op->getResult(0));
    for (OpOperand &operand : op->getOpOperands()) {
      auto expand = operand.get().getDefiningOp<ExpandOp>();
      if (!expand)
        continue;
      // Each dimension of the result must come from some operand still.
      auto covers = [&](size_t fromEnd, Value v) {
        SmallVector<SymExpr> sizes = getSizes(v);
        return sizes.size() > fromEnd &&
               sizes[sizes.size() - 1 - fromEnd] == result[result.size() - 1 - fromEnd];
      };
      bool all = true;
      for (size_t d = 0; d < result.size(); ++d) {
        bool covered = covers(d, expand.getOperand());
        for (OpOperand &other : op->getOpOperands())
          covered |= &other != &operand && covers(d, other.get());
        all &= covered;
      }
      if (!all)
        continue;
      rewriter.modifyOpInPlace(op, [&]() { operand.set(expand.getOperand()); });
      return success();
    }
    return failure();
  }
};

} // namespace

void mlir::tpc::populateMovementPatterns(RewritePatternSet &patterns) {
  patterns.add<ShortenChain, FoldIntoView, ExpandOfExpand, ExpandOfIota, SliceOfSlice,
               SliceOfConcat, GatherToSlice, GatherNDToSlice, DropGatherND, DropExpand>(
      patterns.getContext());
}
