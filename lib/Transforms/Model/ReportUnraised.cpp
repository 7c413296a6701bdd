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
static bool copiesMatrices(GatherNDOp op) {
  return op.getBatchDims() == 0 && rankOf(op.getData()) >= 3 && isFloatTensor(op.getResult()) &&
         op.getData().getDefiningOp<ParameterOp>() &&
         llvm::any_of(op->getUsers(), [](Operation *user) { return isa<MatmulOp>(user); });
}

namespace {

struct ReportUnraised : public mlir::tpc::impl::ReportUnraisedBase<ReportUnraised> {
  void runOnOperation() override {
    // Parts of raised ops are no longer needed, even if they have annotations.
    DenseSet<Operation *> unneeded;
    for (Block &block : getOperation().getBody())
      unneeded.insert_range(getUnusedOps(block));
    getOperation().walk([&](Operation *op) {
      StringRef what;
      if (unneeded.contains(op))
        return;
      if (isa<SoftmaxOp>(op))
        what = "softmax is not part of a recognized attention";
      else if (isa<ErfOp, TanhOp>(op))
        what = "is not part of a recognized activation";
      else if (auto reduce = dyn_cast<ReduceOp>(op); reduce &&
                                                     reduce.getFunction() == ReduceFunction::Mean &&
                                                     isFloatTensor(reduce.getResult()))
        what = "mean is not part of a recognized norm";
      else if (auto gather = dyn_cast<GatherNDOp>(op); gather && copiesMatrices(gather))
        what = "copies a matrix for each row, not part of a recognized mixture of experts";
      if (what.empty())
        return;
      std::string name = getSourceName(op->getLoc());
      InFlightDiagnostic remark = emitRemark(op->getLoc());
      if (!name.empty())
        remark << "'" << name << "': ";
      if (isa<ErfOp, TanhOp>(op))
        remark << op->getName().stripDialect() << " ";
      remark << what << "; it is computed as it is";
    });
  }
};

} // namespace
