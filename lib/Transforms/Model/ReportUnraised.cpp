//===- ReportUnraised.cpp - Remarks on unrecognized ops -------------------===//

#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Transforms/Model/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_REPORTUNRAISED
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Returns whether a matmul reads a matrix that `op` copies from a weight for each row.
static bool copiesMatrices(Operation *op) {
  if (auto gather = dyn_cast<GatherNDOp>(op); gather && gather.getBatchDims() != 0)
    return false;
  if (auto gather = dyn_cast<GatherOp>(op); gather && gather.getDim() != 0)
    return false;
  if (!isa<GatherNDOp, GatherOp>(op))
    return false;
  return rankOf(op->getOperand(0)) >= 3 && isFloatTensor(op->getResult(0)) &&
         op->getOperand(0).getDefiningOp<ParameterOp>() &&
         llvm::any_of(op->getUsers(), [](Operation *user) { return isa<MatmulOp>(user); });
}

/// Returns whether `op` multiplies by each matrix of a weight [experts, .., ..], and the products
/// are added over the experts.
static bool computesAllExperts(MatmulOp op) {
  Value weight = op.getRhs();
  while (auto transpose = weight.getDefiningOp<TransposeOp>())
    weight = transpose.getOperand();
  if (!weight.getDefiningOp<ParameterOp>() || rankOf(weight) != 3 ||
      getSizes(weight)[0].isConstant(1))
    return false;
  Operation *user = op;
  for (int depth = 0; depth < 4 && user->hasOneUse(); ++depth) {
    user = *user->getUsers().begin();
    if (auto reduce = dyn_cast<ReduceOp>(user))
      return reduce.getFunction() == ReduceFunction::Sum && reduce.getDims().size() == 1 &&
             getSizes(reduce.getOperand())[reduce.getDims()[0]] == getSizes(weight)[0];
    if (!isa<MulOp, AddOp, ReshapeOp, TransposeOp>(user))
      return false;
  }
  return false;
}

/// Returns the ops between the matmuls of routers and the experts: softmaxes and selections.
static DenseSet<Operation *> findRouters(func::FuncOp function) {
  DenseSet<Operation *> found;
  SmallVector<Value> open;
  function.walk([&](MoeOp moe) { open.push_back(moe.getRouting()); });
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && !isa<MatmulOp>(op) && found.insert(op).second)
      llvm::append_range(open, op->getOperands());
  }
  return found;
}

namespace {

struct ReportUnraised : public mlir::tpc::impl::ReportUnraisedBase<ReportUnraised> {
  void runOnOperation() override {
    // Parts of raised ops are no longer needed, even if they have annotations.
    DenseSet<Operation *> unneeded;
    for (Block &block : getOperation().getBody())
      unneeded.insert_range(getUnusedOps(block));
    DenseSet<Operation *> routers = findRouters(getOperation());
    getOperation().walk([&](Operation *op) {
      StringRef what;
      if (unneeded.contains(op) || routers.contains(op))
        return;
      if (isa<SoftmaxOp>(op))
        what = "softmax is not part of a recognized attention";
      else if (isa<ErfOp, TanhOp>(op))
        what = "is not part of a recognized activation";
      else if (auto reduce = dyn_cast<ReduceOp>(op); reduce &&
                                                     reduce.getFunction() == ReduceFunction::Mean &&
                                                     isFloatTensor(reduce.getResult()))
        what = "mean is not part of a recognized norm";
      else if (copiesMatrices(op))
        what = "copies a matrix for each row, not part of a recognized mixture of experts";
      else if (auto matmul = dyn_cast<MatmulOp>(op); matmul && computesAllExperts(matmul))
        what = "computes all experts for each token, not part of a recognized mixture of experts";
      if (what.empty())
        return;
      std::string name = getSourceName(op->getLoc());
      bool isSlow = isa<GatherNDOp, GatherOp, MatmulOp>(op);
      InFlightDiagnostic remark = isSlow ? emitWarning(op->getLoc()) : emitRemark(op->getLoc());
      if (!name.empty())
        remark << "'" << name << "': ";
      if (isa<ErfOp, TanhOp>(op))
        remark << op->getName().stripDialect() << " ";
      remark << what << "; it is computed as separate ops";
    });
  }
};

} // namespace
