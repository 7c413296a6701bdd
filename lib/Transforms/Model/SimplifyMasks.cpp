//===- SimplifyMasks.cpp - Removal of conditions on empty mask rows -------===//
//
// Exporters count the visible keys of each query, and replace the results of queries without any.
// With causality each query sees its own key, so that the condition is false.
//
//===----------------------------------------------------------------------===//

#include "Constants.h"
#include "Simplify.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Returns whether each row of a Boolean tensor, along `dim`, has a true element. Assumes
/// that there are rows; otherwise the property holds trivially.
bool hasTrueInEachRow(Value mask, int64_t dim) {
  SmallVector<SymExpr> sizes = getSizes(mask);
  SymExpr length = sizes[dim];
  sizes[dim] = SymExpr(1);
  IndexAnalysis analysis(sizes);
  SmallVector<IndexExpr> where(analysis.getIndices());
  auto isTrueAt = [&](const SymExpr &index) {
    if (!analysis.isNonNegative(index) || !analysis.isAtMost(index + 1, length))
      return false;
    where[dim] = IndexExpr::integer(index);
    IndexExpr element = analysis.at(mask, where);
    return element && element.isTrue();
  };
  // The key of the query's own token: the last queries belong to the last keys.
  for (int64_t row = 0; row < int64_t(sizes.size()); ++row)
    if (row != dim &&
        isTrueAt(SymExpr::symbol(IndexAnalysis::indexName(row)) + length - sizes[row]))
      return true;
  return isTrueAt(SymExpr(0));
}

/// Folds comparisons with the number of true elements of a row, where it is at least 1.
struct FoldCountOfTrue : public OpRewritePattern<CmpOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CmpOp op, PatternRewriter &rewriter) const override {
    auto count = op.getLhs().getDefiningOp<ReduceOp>();
    auto limit = getSplat(op.getRhs());
    if (!count || !limit || count.getDims().size() != 1 ||
        (count.getFunction() != ReduceFunction::Sum && count.getFunction() != ReduceFunction::Max))
      return failure();
    bool holds;
    switch (op.getPredicate()) {
    case Predicate::LT:
    case Predicate::EQ:
    case Predicate::LE:
      holds = false;
      break;
    default:
      holds = true;
    }
    bool isStrict = op.getPredicate() == Predicate::LT || op.getPredicate() == Predicate::GE;
    if (isStrict ? *limit > 1 : *limit >= 1)
      return failure();
    auto ones = count.getOperand().getDefiningOp<CastOp>();
    if (!ones || !elementTypeOf(ones.getOperand()).isInteger(1) ||
        !hasTrueInEachRow(ones.getOperand(), count.getDims()[0]))
      return failure();
    rewriter.replaceOp(op, createSplat(rewriter, op.getLoc(),
                                       cast<RankedTensorType>(op.getResult().getType()), holds));
    return success();
  }
};

} // namespace

void mlir::tpc::populateMaskPatterns(RewritePatternSet &patterns) {
  patterns.add<FoldCountOfTrue>(patterns.getContext());
}
