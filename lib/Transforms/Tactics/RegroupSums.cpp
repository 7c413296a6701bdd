//===- RegroupSums.cpp - Regrouping of partial sums -----------------------===//
//
// A parallel residual (x + attention(n)) + mlp(n) adds two row-parallel matmuls to x. In this
// order, the first matmul must be reduced before x is added, and the second matmul is reduced
// separately. If the partial sums are added first, one reduction suffices.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

/// Collects the addends of a tree of adds in order, and its inner adds, users first. Inner adds
/// have no other use.
static void collectAddends(AddOp add, SmallVectorImpl<Value> &addends,
                           SmallVectorImpl<Operation *> &inner) {
  for (Value operand : add->getOperands()) {
    auto next = operand.getDefiningOp<AddOp>();
    // Annotated values are not changed.
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

bool mlir::tpc::regroupSums(PartitionState &state) {
  SmallVector<AddOp> roots;
  state.problem.module.walk([&](AddOp add) {
    if (!isInnerAdd(add) && !add->hasAttr(kShardingAttr))
      roots.push_back(add);
  });
  // Ops are erased last, so that no new op has the address of an old site.
  SmallVector<Operation *> replaced;
  for (AddOp root : roots) {
    SmallVector<Value> addends, partial, rest;
    SmallVector<Operation *> inner;
    collectAddends(root, addends, inner);
    for (Value value : addends) {
      // With two tp dimensions, only reductions over columns are unreduced over tpy.
      bool isPartial = !value.getDefiningOp<AddOp>() &&
                       state.isUnreduced(value, state.problem.spec.isTensor2D() ? "tpy" : "tp") &&
                       value.hasOneUse() && value.getType() == root.getType();
      (isPartial ? partial : rest).push_back(value);
    }
    if (partial.size() < 2 || rest.empty())
      continue;
    OpBuilder builder(root);
    auto add = [&](Value lhs, Value rhs) -> Value {
      auto op = AddOp::create(builder, root.getLoc(), root.getType(), lhs, rhs);
      state.problem.classes.addOp(op);
      state.copySite(root.getOperation(), op.getOperation());
      return op;
    };
    Value sum = partial.front();
    for (Value value : ArrayRef(partial).drop_front())
      sum = add(sum, value);
    for (Value value : rest)
      sum = add(value, sum);
    root.getResult().replaceAllUsesWith(sum);
    replaced.push_back(root);
    llvm::append_range(replaced, inner);
  }
  for (Operation *op : replaced)
    op->erase();
  return !replaced.empty();
}

/// Returns the last of the adds that follow `op`, each the only use of its operand; `op` if none.
static Operation *getLastAdd(Operation *op) {
  while (op->hasOneUse() && isa<AddOp>(*op->user_begin()))
    op = *op->user_begin();
  return op;
}

bool mlir::tpc::hasSeveralSums(ArrayRef<Operation *> sums) {
  llvm::SmallDenseMap<Operation *, Operation *> lastOf; // by function
  return llvm::any_of(sums, [&](Operation *op) {
    Operation *last = getLastAdd(op);
    return lastOf.try_emplace(op->getParentOfType<func::FuncOp>(), last).first->second != last;
  });
}
