//===- SimplifyLengths.cpp - Simplification of numbers of past tokens -----===//
//
// GroupQueryAttention computes the number of past tokens of each sequence from the mask. Where the
// mask hides nothing, all sequences have the same number of past tokens, a size of the program.
//
//===----------------------------------------------------------------------===//

#include "Movement.h"
#include "Simplify.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Returns the size that all elements of an integer tensor equal; nothing if there is none.
std::optional<SymExpr> getCommonSize(Value value) {
  IndexAnalysis analysis(getSizes(value));
  IndexExpr element = analysis.at(value, analysis.getIndices());
  if (!element || !element.isInteger() || !IndexAnalysis::isSize(element.getPolynomial()))
    return std::nullopt;
  return element.getPolynomial();
}

/// Replaces the larger or smaller of two integers by a size if it is the same for all elements.
template <typename OpTy> struct FoldExtremum : public OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    Type element = elementTypeOf(op.getResult());
    if (!isa<IntegerType>(element))
      return failure();
    std::optional<SymExpr> size = getCommonSize(op.getResult());
    if (!size)
      return failure();
    Value scalar = SizeOp::create(rewriter, op.getLoc(), RankedTensorType::get({}, element), *size);
    rewriter.replaceOp(op, createExpand(rewriter, op.getLoc(), scalar, getSizes(op.getResult())));
    return success();
  }
};

/// Moves lengths that are the same for all sequences to the offset of the first query.
struct FoldLengths : public OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getLengths())
      return failure();
    std::optional<SymExpr> size = getCommonSize(op.getLengths());
    if (!size)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getLengthsMutable().clear();
      op.setCausalOffsetAttr(SymExprAttr::get(op.getContext(), op.getCausalOffset() + *size));
    });
    return success();
  }
};

} // namespace

void mlir::tpc::populateLengthPatterns(RewritePatternSet &patterns) {
  patterns.add<FoldExtremum<MaxOp>, FoldExtremum<MinOp>, FoldLengths>(patterns.getContext());
}
