//===- MergeMatmuls.cpp - Merge of matmuls with the same LHS --------------===//
//
// One runtime call for Q, K and V reads the LHS once and is one large task for the threads instead
// of three small ones. Each matmul keeps its parameter, epilogue and result, so users of the
// results do not change.
//
//===----------------------------------------------------------------------===//

#include "ParameterTable.h"
#include "tpc/Conversion/Passes.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_MERGEMATMULS
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

SmallVector<MatmulOp> mlir::tpc::getMerged(MatmulOp op) {
  Attribute mark = op->getAttr(kMergedAttr);
  if (!mark)
    return {op};
  SmallVector<MatmulOp> merged;
  for (OpOperand &use : op.getLhs().getUses())
    if (auto other = dyn_cast<MatmulOp>(use.getOwner()); other && use.getOperandNumber() == 0 &&
                                                         other->getBlock() == op->getBlock() &&
                                                         other->getAttr(kMergedAttr) == mark)
      merged.push_back(other);
  llvm::sort(merged, [](MatmulOp a, MatmulOp b) { return a->isBeforeInBlock(b); });
  return merged;
}

namespace {
struct MergeMatmuls : mlir::tpc::impl::MergeMatmulsBase<MergeMatmuls> {
  void runOnOperation() override;
  void merge(ArrayRef<MatmulOp> products, const ParameterTable &parameters);

  int64_t next = 0; // next group number in the current block
};

using Reached = llvm::SmallPtrSet<Operation *, 16>;
} // namespace

/// Returns the ops of the block that depend on a matmul's result without another packed matmul in
/// between.
static Reached findReached(MatmulOp product, const ParameterTable &parameters) {
  Reached reached;
  SmallVector<Operation *> work{product};
  while (!work.empty())
    for (Operation *user : work.pop_back_val()->getUsers()) {
      auto matmul = dyn_cast<MatmulOp>(user);
      if (user->getBlock() == product->getBlock() && !user->hasTrait<OpTrait::IsTerminator>() &&
          !(matmul && parameters.isPackedMatmul(matmul)) && reached.insert(user).second)
        work.push_back(user);
    }
  return reached;
}

/// Returns whether all operands of a matmul and its epilogue, except the LHS, are defined before
/// `first`.
static bool canMoveTo(MatmulOp product, MatmulOp first, const ParameterTable &parameters) {
  auto isThere = [&](Value v) {
    Operation *op = v.getDefiningOp();
    return !op || op->getBlock() != first->getBlock() || op->isBeforeInBlock(first) ||
           isa<ConstantOp>(op) || parameters.lookup(getLoadedParameter(v));
  };
  if (product.getBias() && !isThere(product.getBias()))
    return false;
  for (Operation *op = product; op->hasOneUse();) {
    OpOperand &use = *op->use_begin();
    auto fused = use.getOwner()->getAttrOfType<IntegerAttr>(kFusedAttr);
    if (!fused || fused.getInt() != use.getOperandNumber())
      break;
    op = use.getOwner();
    for (OpOperand &other : op->getOpOperands())
      if (&other != &use && !isThere(other.get()))
        return false;
  }
  return true;
}

/// Merges matmuls of one LHS, in program order. A matmul is added to the first group with a common
/// dependent op if it can be moved to the first matmul of the group.
void MergeMatmuls::merge(ArrayRef<MatmulOp> products, const ParameterTable &parameters) {
  struct Group {
    SmallVector<MatmulOp> members;
    Reached reached;
  };
  SmallVector<Group> groups;
  for (MatmulOp product : products) {
    Reached reached = findReached(product, parameters);
    auto meets = [&](const Group &group) {
      return canMoveTo(product, group.members.front(), parameters) &&
             llvm::any_of(reached, [&](Operation *op) { return group.reached.contains(op); });
    };
    auto group = llvm::find_if(groups, meets);
    if (group == groups.end())
      group = &groups.emplace_back();
    group->members.push_back(product);
    group->reached.insert(reached.begin(), reached.end());
  }
  for (const Group &group : groups) {
    if (group.members.size() == 1)
      continue;
    auto mark = IntegerAttr::get(IntegerType::get(&getContext(), 64), next++);
    for (MatmulOp product : group.members)
      product->setAttr(kMergedAttr, mark);
  }
}

void MergeMatmuls::runOnOperation() {
  WalkResult marked = getOperation().walk([](Operation *op) {
    if (!op->hasAttr(kMergedAttr))
      return WalkResult::advance();
    op->emitOpError() << "has '" << kMergedAttr << "' already: only this pass sets it";
    return WalkResult::interrupt();
  });
  if (marked.wasInterrupted())
    return signalPassFailure();
  ParameterTable parameters(getOperation());
  getOperation().walk([&](Block *block) {
    llvm::MapVector<Value, SmallVector<MatmulOp>> byLhs;
    for (Operation &op : *block)
      if (auto product = dyn_cast<MatmulOp>(op); product && parameters.isPackedMatmul(product))
        byLhs[product.getLhs()].push_back(product);
    next = 0;
    for (auto &[value, products] : byLhs)
      if (products.size() > 1)
        merge(products, parameters);
  });
}
