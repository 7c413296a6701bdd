//===- SimplifyMatmuls.cpp - Simplification of matmuls --------------------===//

#include "Constants.h"
#include "Movement.h"
#include "Simplify.h"
#include "mlir/IR/IRMapping.h"
#include "tpc/Dialect/Annotations.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Folds matmul(x, w) + b, also with a reshape of the rows in between.
struct AddBias : public OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (int side : {0, 1}) {
      Value v = op->getOperand(side), bias = op->getOperand(1 - side);
      auto reshape = v.getDefiningOp<ReshapeOp>();
      auto matmul = (reshape ? reshape.getOperand() : v).getDefiningOp<MatmulOp>();
      if (!matmul || matmul.getBias() || !hasOneModelUse(matmul) ||
          (reshape && !hasOneModelUse(reshape)))
        continue;
      SymExpr n = getSizes(matmul.getResult()).back();
      if (rankOf(matmul.getResult()) < 2 || getSizes(v).back() != n || !isConstantVector(bias, n) ||
          !sameSizes(getSizes(op.getResult()), getSizes(v)))
        continue;
      Location loc = op.getLoc();
      Value vector = createReshape(rewriter, loc, bias, {n});
      Value product = MatmulOp::create(rewriter, loc, matmul.getResult().getType(), matmul.getLhs(),
                                       matmul.getRhs(), vector);
      rewriter.replaceOp(op, createReshape(rewriter, loc, product, getSizes(op.getResult())));
      return success();
    }
    return failure();
  }
};

/// Converts [b*H, m, k] x [b*H, k, n], whose operands were merged from [b, H, ...], to a matmul of
/// the unmerged operands with a merged result. Each application reduces the number of LHS
/// dimensions with several factors.
struct UnmergeBatch : public OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    int64_t rank = rankOf(op.getLhs());
    if (rank < 3 || rankOf(op.getRhs()) != rank || op.getBias())
      return failure();
    Movement lhs = Movement::of(op.getLhs()), rhs = Movement::of(op.getRhs());
    SmallVector<SmallVector<SymExpr>> left, right;
    bool any = false;
    for (int64_t d = 0; d < rank; ++d) {
      SmallVector<SymExpr> l{lhs.dimSize(lhs.dims[d])}, r{rhs.dimSize(rhs.dims[d])};
      if (d < rank - 2 && l[0] == r[0] && lhs.dims[d].size() > 1 && rhs.dims[d].size() > 1) {
        SmallVector<SymExpr> parts;
        for (int f : lhs.dims[d])
          parts.push_back(lhs.factors[f].size);
        l = r = parts;
        any = true;
      }
      left.push_back(l);
      right.push_back(r);
    }
    if (!any)
      return failure();
    auto a = lhs.divide(left), b = rhs.divide(right);
    if (!a || !b)
      return failure();
    lhs.dims = *a;
    rhs.dims = *b;
    Location loc = op.getLoc();
    Value product = MatmulOp::create(rewriter, loc, lhs.build(rewriter, loc),
                                     rhs.build(rewriter, loc), Value());
    rewriter.replaceOp(op, createReshape(rewriter, loc, product, getSizes(op.getResult())));
    return success();
  }
};

/// Moves [b, H, m, n] -> [b*H, m, n] after softmax and element-wise ops.
struct SinkMergedBatch : public RewritePattern {
  SinkMergedBatch(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<SoftmaxOp, ScalarOpInterface>(op) || op->getNumResults() != 1)
      return failure();
    if (auto softmax = dyn_cast<SoftmaxOp>(op);
        softmax && (int64_t)softmax.getDim() != rankOf(softmax.getOperand()) - 1)
      return failure();
    // All operands except splats must be results of equal reshapes.
    std::optional<SmallVector<SymExpr>> source;
    for (Value operand : op->getOperands()) {
      if (getSplat(operand))
        continue;
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      if (!reshape)
        return failure();
      SmallVector<SymExpr> from = getSizes(reshape.getOperand()), to = getSizes(operand);
      size_t n = to.size();
      if (from.size() <= n || n < 3 || from[from.size() - 1] != to[n - 1] ||
          from[from.size() - 2] != to[n - 2] || !sameSizes(to, getSizes(op->getResult(0))) ||
          (source && !sameSizes(*source, from)))
        return failure();
      source = from;
    }
    if (!source)
      return failure();
    Location loc = op->getLoc();
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      if (getSplat(operand))
        mapping.map(operand,
                    createScalar(rewriter, loc, elementTypeOf(operand), *getSplat(operand)));
      else
        mapping.map(operand, operand.getDefiningOp()->getOperand(0));
    }
    Operation *inner = rewriter.clone(*op, mapping);
    inner->getResult(0).setType(makeTensorType(elementTypeOf(op->getResult(0)), *source));
    if (auto softmax = dyn_cast<SoftmaxOp>(inner))
      softmax.setDim(source->size() - 1);
    rewriter.replaceOp(
        op, createReshape(rewriter, loc, inner->getResult(0), getSizes(op->getResult(0))));
    return success();
  }
};

} // namespace

void mlir::tpc::populateMatmulPatterns(RewritePatternSet &patterns) {
  patterns.add<AddBias, UnmergeBatch, SinkMergedBatch>(patterns.getContext());
}
