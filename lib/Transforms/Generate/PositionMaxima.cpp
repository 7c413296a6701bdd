//===- PositionMaxima.cpp - Maxima of values computed from positions ------===//

#include "PositionMaxima.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Analysis/Index/Splats.h"
#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

std::optional<SymExpr> mlir::tpc::findLargest(Value v, int depth) {
  SmallVector<SymExpr> sizes = getSizes(v);
  IndexAnalysis analysis(sizes);
  IndexExpr element = analysis.at(v, analysis.getIndices());
  if (element && element.isInteger())
    if (auto end = analysis.upperBound(element.getPolynomial()))
      return end;
  Operation *op = v.getDefiningOp();
  if (!op || depth > 16 || isFloatTensor(v) || op->getNumOperands() == 0)
    return std::nullopt;
  auto of = [&](int i) { return findLargest(op->getOperand(i), depth + 1); };
  if (auto select = dyn_cast<SelectOp>(op)) {
    // x < n ? x : y has at most the larger of n - 1 and y's maximum.
    auto cmp = select.getCondition().getDefiningOp<CmpOp>();
    auto limit = cmp ? getSplat(cmp.getRhs()) : std::nullopt;
    bool limits = limit && cmp.getPredicate() == Predicate::LT && cmp.getLhs() == select.getLhs();
    auto a = limits ? std::optional(SymExpr(static_cast<int64_t>(*limit) - 1)) : of(1), b = of(2);
    if (!a || !b)
      return std::nullopt;
    if (analysis.isAtMost(*a, *b))
      return b;
    return analysis.isAtMost(*b, *a) ? a : std::nullopt;
  }
  if (op->getNumOperands() > 2)
    return std::nullopt;
  auto number = [&](int i) -> std::optional<int64_t> {
    auto splat = getSplat(op->getOperand(i));
    return splat ? std::optional(static_cast<int64_t>(*splat)) : std::nullopt;
  };
  if (op->getNumOperands() == 1)
    return isa<CastOp, MovementOpInterface>(op) && !isFloatTensor(op->getOperand(0)) ? of(0)
                                                                                     : std::nullopt;
  if (auto n = number(1); n && *n > 0) {
    if (isa<ModOp>(op)) {
      auto end = of(0);
      return end && analysis.isNonNegative(*end) ? SymExpr::min(*end, SymExpr(*n - 1))
                                                 : SymExpr(*n - 1);
    }
    if (isa<DivOp>(op))
      if (auto end = of(0); end && analysis.isNonNegative(*end))
        return SymExpr::floorDiv(*end, SymExpr(*n));
  }
  for (int side : {0, 1}) {
    auto n = number(side);
    if (!n)
      continue;
    auto end = of(1 - side);
    if (isa<MinOp>(op))
      return end ? SymExpr::min(*end, SymExpr(*n)) : SymExpr(*n);
    if (!end)
      return std::nullopt;
    if (isa<MaxOp>(op)) {
      if (analysis.isAtMost(SymExpr(*n), *end))
        return end;
      return analysis.isAtMost(*end, SymExpr(*n)) ? std::optional(SymExpr(*n)) : std::nullopt;
    }
    if (isa<AddOp>(op))
      return *end + SymExpr(*n);
    if (isa<SubOp>(op) && side == 1)
      return *end - SymExpr(*n);
    if (isa<MulOp>(op) && *n > 0)
      return *end * SymExpr(*n);
  }
  return std::nullopt;
}
