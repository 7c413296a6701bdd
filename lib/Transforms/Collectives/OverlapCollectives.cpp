//===- OverlapCollectives.cpp - Communication under matmuls ---------------===//

#include "tpc/Dialect/Async.h"
#include "tpc/Transforms/Collectives/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Returns whether the value is a parameter, possibly moved or unpacked.
static bool isParameter(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op) // a layer's parameters are arguments
    return cast<RankedTensorType>(value.getType()).getRank() == 2;
  return isa<ParameterOp>(op) || (op->getNumOperands() > 0 && !isa<MatmulOp, func::CallOp>(op) &&
                                  isParameter(op->getOperand(0)));
}

namespace {
struct OverlapCollectives : mlir::tpc::impl::OverlapCollectivesBase<OverlapCollectives> {
  using OverlapCollectivesBase::OverlapCollectivesBase;

  void runOnOperation() override {
    if (chunks < 1 || chunks > AllReduceStartOp::maxChunks || grain < 1) {
      getOperation().emitError() << "cannot overlap with " << int64_t(chunks)
                                 << " chunks of at least " << int64_t(grain)
                                 << " rows: there are 1 to " << AllReduceStartOp::maxChunks
                                 << " chunks, of 1 row or more";
      return signalPassFailure();
    }
    SmallVector<AllReduceOp> found;
    getOperation().walk([&](AllReduceOp op) { found.push_back(op); });
    for (AllReduceOp op : found)
      overlap(op);
  }

  void overlap(AllReduceOp op) {
    auto matmul = op.getOperand().getDefiningOp<MatmulOp>();
    if (!matmul || !matmul.getResult().hasOneUse() || matmul->getBlock() != op->getBlock() ||
        !isParameter(matmul.getRhs()) || op.getResult().use_empty())
      return;
    Block *block = op->getBlock();
    Operation *first = nullptr;
    for (Operation *user : op.getResult().getUsers()) {
      Operation *inBlock = block->findAncestorOpInBlock(*user);
      if (!first || inBlock->isBeforeInBlock(first))
        first = inBlock;
    }
    OpBuilder b(op);
    b.setInsertionPointAfter(matmul);
    auto start = AllReduceStartOp::create(b, op.getLoc(), op.getType(), op.getOperand(),
                                          op.getAxesAttr(), chunks, grain);
    b.setInsertionPoint(first);
    auto wait = WaitOp::create(b, op.getLoc(), start.getResult());
    op.getResult().replaceAllUsesWith(wait.getResult());
    op.erase();
  }
};
} // namespace
