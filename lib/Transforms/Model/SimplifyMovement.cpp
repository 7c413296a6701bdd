//===- SimplifyMovement.cpp - Simplification of element movement ----------===//

#include "Constants.h"
#include "Movement.h"
#include "Simplify.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Shortens a chain of reshapes and transposes.
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

/// Folds transposes, slices and reshapes of parameters into views; not in a training step, whose
/// updates replace the elements of one view.
struct FoldIntoView : public RewritePattern {
  FoldIntoView(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 2, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<ReshapeOp, TransposeOp, SliceOp>(op) ||
        op->getParentOfType<ModuleOp>()->hasAttr(kOptimizerAttr))
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

/// Moves a cast of floats before the expand that it reads through view ops: fewer elements are
/// converted, and heads that are repeated for their group are recognized.
struct CastOfExpand : public OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    if (!isFloatTensor(op.getOperand()) || !isFloatTensor(op.getResult()))
      return failure();
    Movement movement = Movement::of(op.getOperand(), Movement::Expands);
    if (llvm::none_of(movement.factors, [](const auto &factor) { return factor.broadcast; }))
      return failure();
    movement.base = CastOp::create(
        rewriter, op.getLoc(),
        makeTensorType(elementTypeOf(op.getResult()), getSizes(movement.base)), movement.base);
    Value moved = movement.build(rewriter, op.getLoc());
    if (moved.getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, moved);
    return success();
  }
};

/// Folds the broadcast of an iota.
struct ExpandOfIota : public OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getOperand());
    auto iota = movement.base.getDefiningOp<IotaOp>();
    if (!iota)
      return failure();
    // One result dimension must consist of exactly the counted dimension.
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

/// Converts a slice of an iota to a shorter iota plus a constant.
struct SliceOfIota : public OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto iota = op.getOperand().getDefiningOp<IotaOp>();
    if (!iota || op.getStep() != 1)
      return failure();
    Type type = op.getResult().getType();
    Value v = IotaOp::create(rewriter, op.getLoc(), type, iota.getDim());
    if (op.getDim() == iota.getDim() && !op.getStart().isConstant(0)) {
      auto scalar = RankedTensorType::get({}, elementTypeOf(v));
      Value start = SizeOp::create(rewriter, op.getLoc(), scalar, op.getStart());
      v = AddOp::create(rewriter, op.getLoc(), type, v, start);
    }
    rewriter.replaceOp(op, v);
    return success();
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

/// Folds a slice within one operand of a concatenation.
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

/// Separates heads from tokens in a norm of each head, so that heads can be split and replicated.
/// Exporters may merge them: [b, s * heads, d] becomes [b, s, heads, d].
template <typename OpTy> struct SeparateHeads : public OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    auto reshape = op.getX().template getDefiningOp<ReshapeOp>();
    if (!reshape)
      return failure();
    SmallVector<SymExpr> from = getSizes(reshape.getOperand()), to = getSizes(op.getX());
    if (from.size() < 2 || to.size() > from.size())
      return failure();
    std::optional<SymExpr> heads = from.back().divideExact(to.back());
    if (!heads || !heads->isConstant() || heads->isConstant(1))
      return failure();
    SmallVector<SymExpr> sizes(from.begin(), from.end() - 1);
    sizes.append({*heads, to.back()});
    rewriter.setInsertionPoint(op);
    Value x = createReshape(rewriter, op.getLoc(), reshape.getOperand(), sizes);
    Operation *norm = rewriter.clone(*op);
    norm->setOperand(0, x);
    norm->getResult(0).setType(x.getType());
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), norm->getResult(0), to));
    return success();
  }
};

/// Removes an expand before an elementwise op, which broadcasts its operands itself.
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
      // After the removal, each size of the result must still be the size of some operand.
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
  patterns.add<ShortenChain, FoldIntoView, ExpandOfExpand, CastOfExpand, ExpandOfIota, SliceOfIota,
               SliceOfSlice, SliceOfConcat, DropExpand, SeparateHeads<RmsNormOp>,
               SeparateHeads<LayerNormOp>>(patterns.getContext());
}
