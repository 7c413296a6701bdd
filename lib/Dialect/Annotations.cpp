//===- Annotations.cpp - Uses of values except by annotations -------------===//

#include "tpc/Dialect/Annotations.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

#define GET_OP_CLASSES
#include "tpc/Dialect/AnnotationOps.cpp.inc"

/// Maximum length of a chain of ops that only annotations use. Ops of longer chains count as used
/// by the model.
static constexpr unsigned kMaxDepth = 16;

static bool isForAnnotations(Operation *op, unsigned depth = 0) {
  if (isa<AnnotationOp>(op))
    return true;
  return depth < kMaxDepth && !op->use_empty() && isMemoryEffectFree(op) &&
         llvm::all_of(
             op->getUsers(), [&](Operation *user) { return isForAnnotations(user, depth + 1); });
}

SmallVector<OpOperand *> mlir::tpc::getModelUses(Value value) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    if (!isForAnnotations(use.getOwner()))
      uses.push_back(&use);
  return uses;
}

DenseSet<Operation *> mlir::tpc::getUnusedOps(Block &block) {
  DenseSet<Operation *> unneeded;
  for (Operation &op : llvm::reverse(block)) {
    auto isUnneeded = [&](Operation *user) {
      return isa<AnnotationOp>(user) || unneeded.contains(user);
    };
    if (wouldOpBeTriviallyDead(&op) && llvm::all_of(op.getUsers(), isUnneeded))
      unneeded.insert(&op);
  }
  return unneeded;
}

LogicalResult mlir::tpc::verifyNoAnnotations(Operation *root) {
  WalkResult result = root->walk([](AnnotationOp op) {
    op.emitOpError() << "of value '" << op.getName()
                     << "' was not converted back to attributes; run tpc-attach-annotations first";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult AnnotationOp::verify() {
  DistAttr dist = getDist(getValue());
  if (dist.isSharded() || dist.getPartial() || dist.getLocal())
    return emitOpError()
           << "must not annotate a distributed value; run tpc-attach-annotations first";
  if (!getSharding() && !getStage())
    return emitOpError("needs a sharding or a stage");
  if (!getSharding())
    return success();
  return verifySharding(getShardingAttr(), getSizes(getValue()), MeshAttr::lookup(*this),
                        [&] { return emitOpError() << "'sharding' "; });
}
