//===- OverlapCollectives.cpp - All-reduces that overlap matmuls ----------===//

#include "tpc/Analysis/Cost.h"
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
using ::tpc::SymExpr;
using ::tpc::Transfer;

/// Minimum gain of overlap, as a fraction of the time of the matmul plus that of the all-reduce.
/// Covers the overhead of the calls of additional chunks.
static constexpr double minGain = 0.05;

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
    if (chunks < 0 || chunks > AllReduceStartOp::maxChunks || grain < 1) {
      getOperation().emitError() << "cannot overlap with " << int64_t(chunks)
                                 << " chunks of at least " << int64_t(grain)
                                 << " rows: there are 1 to " << AllReduceStartOp::maxChunks
                                 << " chunks, of 1 row or more";
      return signalPassFailure();
    }
    SmallVector<AllReduceOp> found;
    getOperation().walk([&](AllReduceOp op) { found.push_back(op); });
    CostModel model(getOperation());
    LinkModel links(getOperation());
    for (AllReduceOp op : found)
      overlap(op, model, links);
  }

  /// Returns the number of chunks with the lowest estimate; 1 if the gain is too small.
  int64_t chooseChunks(AllReduceOp op, MatmulOp matmul, CostModel &model, const LinkModel &links) {
    Cost cost = model.getCost(matmul);
    double weight = model.getBytes(matmul.getRhs().getType());
    double bytes = model.getBytes(op.getType());
    auto axes = llvm::to_vector(op.getAxes().getAsRange<StringAttr>());
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    double rows = 1;
    for (const SymExpr &size : ArrayRef(sizes).drop_back())
      rows *= model.getNominal(size);
    auto getSeconds = [&](int64_t n) {
      double m = std::max(cost.flops / double(n) / CostModel::flopsPerSecond,
                          (weight + (cost.traffic - weight) / double(n)) /
                              CostModel::memoryBytesPerSecond);
      double t = links.getSeconds(Transfer::AllReduce, axes, bytes / double(n));
      return m + double(n - 1) * std::max(m, t) + t;
    };
    int64_t best = 1;
    for (int64_t n = 2; n <= AllReduceStartOp::maxChunks && double(grain * (n - 1)) < rows; ++n)
      if (getSeconds(n) < getSeconds(best))
        best = n;
    return getSeconds(best) <= (1 - minGain) * getSeconds(1) ? best : 1;
  }

  void overlap(AllReduceOp op, CostModel &model, const LinkModel &links) {
    auto matmul = op.getOperand().getDefiningOp<MatmulOp>();
    if (!matmul || !matmul.getResult().hasOneUse() || matmul->getBlock() != op->getBlock() ||
        !isParameter(matmul.getRhs()) || op.getResult().use_empty())
      return;
    int64_t count = chunks ? int64_t(chunks) : chooseChunks(op, matmul, model, links);
    if (chunks == 0 && count == 1)
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
                                          op.getAxesAttr(), count, grain);
    b.setInsertionPoint(first);
    auto wait = WaitOp::create(b, op.getLoc(), start.getResult());
    op.getResult().replaceAllUsesWith(wait.getResult());
    op.erase();
  }
};
} // namespace
