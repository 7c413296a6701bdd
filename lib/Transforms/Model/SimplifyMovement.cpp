//===- SimplifyMovement.cpp - Chains of ops that move elements ------------===//

#include "Constants.h"
#include "Movement.h"
#include "Simplify.h"
#include "tpc/Transforms/Model/IndexAnalysis.h"

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
      auto start = SymExpr::parse(slice.getStart().str());
      auto from = start ? start->asConstant() : std::nullopt;
      if (from)
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
    auto outerStart = SymExpr::parse(op.getStart().str());
    auto innerStart = SymExpr::parse(inner.getStart().str());
    int64_t step;
    if (!outerStart || !innerStart ||
        __builtin_mul_overflow((int64_t)op.getStep(), (int64_t)inner.getStep(), &step))
      return failure();
    rewriter.replaceOp(op, createSlice(rewriter, op.getLoc(), inner.getOperand(), op.getDim(),
                                       *innerStart + *outerStart * SymExpr(inner.getStep()),
                                       getSizes(op.getResult())[op.getDim()], step));
    return success();
  }
};

/// A slice that lies within one operand of a concatenation.
struct SliceOfConcat : public OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getOperand().getDefiningOp<ConcatOp>();
    auto start = SymExpr::parse(op.getStart().str());
    if (!concat || !start || concat.getDim() != op.getDim() || op.getStep() != 1)
      return failure();
    int64_t dim = op.getDim();
    SymExpr size = getSizes(op.getResult())[dim], begin(0);
    for (Value operand : concat.getOperands()) {
      SymExpr end = begin + getSizes(operand)[dim];
      auto before = (*start - begin).lowerBound(), after = (end - *start - size).lowerBound();
      if (before && *before >= 0 && after && *after >= 0) {
        rewriter.replaceOp(op,
                           createSlice(rewriter, op.getLoc(), operand, dim, *start - begin, size));
        return success();
      }
      begin = end;
    }
    return failure();
  }
};

/// A gather of constant, evenly spaced indices is a slice; of one index, a
/// slice without its dimension.
struct GatherToSlice : public OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    int64_t dim = op.getDim(), rank = rankOf(op.getIndices());
    SymExpr size = getSizes(op.getData())[dim];
    auto n = size.asConstant();
    if (!n || rank > 1)
      return failure();
    SmallVector<int64_t> list;
    if (auto splat = getSplat(op.getIndices())) {
      auto count = product(getSizes(op.getIndices())).asConstant();
      if (count != 1)
        return failure();
      list.push_back((int64_t)*splat);
    } else {
      auto constant = op.getIndices().getDefiningOp<ConstantOp>();
      auto dense =
          constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
      if (!dense)
        return failure();
      for (const llvm::APInt &value : dense.getValues<llvm::APInt>())
        list.push_back(value.getSExtValue());
    }
    for (int64_t &i : list) {
      i += i < 0 ? *n : 0;
      if (i < 0 || i >= *n)
        return failure();
    }
    if (list.empty())
      return failure();
    int64_t step = list.size() > 1 ? list[1] - list[0] : 1;
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i] - list[i - 1] != step)
        return failure();
    if (step == 0)
      return failure();
    Value v = createSlice(rewriter, op.getLoc(), op.getData(), dim, SymExpr(list[0]),
                          SymExpr(list.size()), step);
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), v, getSizes(op.getResult())));
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
               SliceOfConcat, GatherToSlice, DropGatherND, DropExpand>(patterns.getContext());
}
