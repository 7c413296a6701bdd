//===- RegroupSums.cpp - One reduction for several partial sums -----------===//
//
// In a parallel residual, x + attention(n) + mlp(n), two row-parallel products are added to
// the same value. As written, x meets the first of them, which must be reduced for
// that; adding the partial sums first leaves one reduction.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

/// The addends of a tree of adds that nobody else looks into, in order, and its inner adds,
/// users first.
static void collectAddends(AddOp add, SmallVectorImpl<Value> &addends,
                           SmallVectorImpl<Operation *> &inner) {
  for (Value operand : add->getOperands()) {
    auto next = operand.getDefiningOp<AddOp>();
    // What an annotation names stays as it is.
    if (next && next->hasOneUse() && next.getType() == add.getType() &&
        !next->hasAttr(kShardingAttr)) {
      inner.push_back(next);
      collectAddends(next, addends, inner);
    } else {
      addends.push_back(operand);
    }
  }
}

static bool isInnerAdd(AddOp add) {
  if (!add->hasOneUse() || add->hasAttr(kShardingAttr))
    return false;
  auto user = dyn_cast<AddOp>(*add->user_begin());
  return user && user.getType() == add.getType();
}

bool mlir::tpc::regroupSums(const Plan &plan) {
  SmallVector<AddOp> roots;
  plan.module.walk([&](AddOp add) {
    if (!isInnerAdd(add) && !add->hasAttr(kShardingAttr))
      roots.push_back(add);
  });
  bool changed = false;
  for (AddOp root : roots) {
    SmallVector<Value> addends, partial, rest;
    SmallVector<Operation *> inner;
    collectAddends(root, addends, inner);
    for (Value value : addends) {
      // Adds reduce nothing; those made here are not in the plan. With a tp of two dimensions only
      // what sums over columns is unreduced over tpy.
      bool first = !value.getDefiningOp<AddOp>() &&
                   (plan.isUnreduced(value, "tp") || plan.isUnreduced(value, "tpy")) &&
                   value.hasOneUse() && value.getType() == root.getType();
      (first ? partial : rest).push_back(value);
    }
    if (partial.size() < 2 || rest.empty())
      continue;
    OpBuilder builder(root);
    Value sum = partial.front();
    for (Value value : ArrayRef(partial).drop_front())
      sum = AddOp::create(builder, root.getLoc(), root.getType(), sum, value);
    for (Value value : rest)
      sum = AddOp::create(builder, root.getLoc(), root.getType(), value, sum);
    root.getResult().replaceAllUsesWith(sum);
    root.erase();
    for (Operation *op : inner)
      op->erase();
    changed = true;
  }
  return changed;
}
