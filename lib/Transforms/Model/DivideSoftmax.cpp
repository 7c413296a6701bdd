//===- DivideSoftmax.cpp - Decomposition of the vocabulary softmax --------===//

#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_DIVIDESOFTMAX
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Returns true if `v` is computed element-wise from a matmul with a weight.
static bool isComputedFromMatmul(Value v, int depth = 0) {
  Operation *op = v.getDefiningOp();
  if (!op || depth > 16)
    return false;
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    Operation *rhs = matmul.getRhs().getDefiningOp();
    while (isa_and_nonnull<TransposeOp, ReshapeOp, CastOp>(rhs))
      rhs = rhs->getOperand(0).getDefiningOp();
    return isa_and_nonnull<ParameterOp>(rhs);
  }
  if (isa<ReshapeOp>(op)) // of rows
    return getSizes(op->getOperand(0)).back() == getSizes(v).back() &&
           isComputedFromMatmul(op->getOperand(0), depth + 1);
  return isa<ScalarOpInterface>(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
           return operand.getType() == v.getType() && isComputedFromMatmul(operand, depth + 1);
         });
}

/// Returns true if `v` is used only as an output.
static bool isOutput(Value v) {
  SmallVector<OpOperand *> uses = getModelUses(v);
  return !uses.empty() && llvm::all_of(uses, [](OpOperand *use) {
    Operation *user = use->getOwner();
    return isa<func::ReturnOp>(user) ||
           (isa<ReshapeOp, CastOp>(user) && isOutput(user->getResult(0)));
  });
}

namespace {
struct DivideSoftmax : public mlir::tpc::impl::DivideSoftmaxBase<DivideSoftmax> {
  void runOnOperation() override {
    SmallVector<SoftmaxOp> softmaxes;
    getOperation().walk([&](SoftmaxOp op) { softmaxes.push_back(op); });
    for (SoftmaxOp op : softmaxes) {
      Value x = op.getOperand();
      int64_t dim = op.getDim();
      if (dim + 1 != int64_t(getSizes(x).size()) || !isOutput(op.getResult()) ||
          !isComputedFromMatmul(x))
        continue;
      OpBuilder builder(op);
      Location loc = op.getLoc();
      Value maximum = ReduceOp::create(builder, loc, ReduceFunction::Max, x, {dim}, true);
      Value shifted = SubOp::create(builder, loc, x.getType(), x, maximum);
      Value exps = ExpOp::create(builder, loc, x.getType(), shifted);
      Value sum = ReduceOp::create(builder, loc, ReduceFunction::Sum, exps, {dim}, true);
      Value result = DivOp::create(builder, loc, x.getType(), exps, sum);
      op.getResult().replaceAllUsesWith(result);
      op.erase();
    }
  }
};
} // namespace
