//===- RegroupSums.cpp - Regrouping of partial sums -----------------------===//
//
// A parallel residual x + attention(n) + mlp(n) adds two row-parallel matmuls to the same value. As
// written, x is added to the first, which must be reduced before that. Adding the partial sums
// first leaves one reduction.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

/// Collects the addends of a tree of adds in order, and its inner adds, users first. Inner adds
/// have no other use.
static void collectAddends(AddOp add, SmallVectorImpl<Value> &addends,
                           SmallVectorImpl<Operation *> &inner) {
  for (Value operand : add->getOperands()) {
    auto next = operand.getDefiningOp<AddOp>();
    // An annotated value stays as it is.
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
      // Adds never reduce, and the plan does not contain the new ones. With two tp dimensions, only
      // sums over columns are unreduced over tpy.
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
