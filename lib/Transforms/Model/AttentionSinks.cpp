//===- AttentionSinks.cpp - Scores with an attention sink -----------------===//

#include "AttentionSinks.h"
#include "Movement.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

std::optional<SinkScores> mlir::tpc::matchScores(OpBuilder &builder, Value &p) {
  auto slice = p.getDefiningOp<SliceOp>();
  auto softmax = (slice ? slice.getOperand() : p).getDefiningOp<SoftmaxOp>();
  int64_t last = int64_t(rankOf(p)) - 1;
  if (!softmax || int64_t(softmax.getDim()) != last)
    return std::nullopt;
  Value all = softmax.getOperand();
  p = softmax.getResult();
  if (!slice)
    return SinkScores{all, {}};
  // Softmax does not depend on a number that is subtracted from a row.
  if (auto sub = all.getDefiningOp<SubOp>())
    if (auto reduce = sub.getRhs().getDefiningOp<ReduceOp>();
        reduce && reduce.getOperand() == sub.getLhs() && reduce.getKeepDims() &&
        reduce.getDims() == ArrayRef<int64_t>{last})
      all = sub.getLhs();
  auto concat = all.getDefiningOp<ConcatOp>();
  if (!concat || concat->getNumOperands() != 2 || int64_t(concat.getDim()) != last || last < 2)
    return std::nullopt;
  Value keys = concat->getOperand(0), column = concat->getOperand(1);
  if (int64_t(slice.getDim()) != last || !slice.getStart().isConstant(0) || slice.getStep() != 1 ||
      getSizes(slice.getResult())[last] != getSizes(keys)[last] ||
      !getSizes(column)[last].isConstant(1))
    return std::nullopt;
  // The column is equal for all sequences and queries.
  while (auto expand = column.getDefiningOp<ExpandOp>())
    column = expand.getOperand();
  SmallVector<SymExpr> own = getSizes(column), full = getSizes(keys);
  SymExpr heads = full[1];
  for (int64_t d = 2; d + 1 < last; ++d)
    heads = heads * full[d];
  for (auto [d, size] : llvm::enumerate(llvm::reverse(own)))
    if ((d < 2 || int64_t(d) >= last) && !size.isConstant(1))
      return std::nullopt;
  if (product(own) != heads)
    return std::nullopt;
  return SinkScores{keys, createReshape(builder, softmax.getLoc(), column, {heads})};
}
