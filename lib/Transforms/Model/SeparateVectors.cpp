//===- SeparateVectors.cpp - A parameter for each use of a vector ---------===//

#include "tpc/Transforms/Model/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SEPARATEVECTORS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// At most one dimension is not 1. Matrices are left as they are: a tied embedding is to be held
/// once, split one way.
static bool isVector(ParameterOp parameter) {
  return llvm::count_if(parameter.getType().getShape(), [](int64_t n) { return n != 1; }) <= 1;
}

namespace {

struct SeparateVectors : public mlir::tpc::impl::SeparateVectorsBase<SeparateVectors> {
  void runOnOperation() override {
    DenseSet<Value> used;
    OpBuilder builder(&getContext());
    getOperation().walk([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands()) {
        auto parameter = operand.get().getDefiningOp<ParameterOp>();
        if (!parameter || !isVector(parameter) || used.insert(parameter).second)
          continue;
        builder.setInsertionPointAfter(parameter);
        operand.set(builder.clone(*parameter)->getResult(0));
      }
    });
  }
};

} // namespace
