//===- VerifyRounds.cpp - What all rounds have in common ------------------===//
//
// What stands in a stage, but not in its rounds, is computed once, and every round reads the same.
// By the rules of SSA it reads inputs, which are whole, and what is computed there as well. So it
// may only differ from what a round would compute if it takes a micro-batch's part of something,
// which its type says: RelationChecker shows that types are true.
//
//===----------------------------------------------------------------------===//

#include "Lemmas.h"

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {
class Rounds {
public:
  explicit Rounds(ModuleOp module) : module(module) {}
  LogicalResult checkOnce(Operation *op);

private:
  LogicalResult checkTypes(Operation *op, TypeRange types);

  ModuleOp module;
  DenseSet<Operation *> functions;
};
} // namespace

LogicalResult Rounds::checkTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (isa<RankedTensorType>(type) && getDist(type).usesAxis("mb"))
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << ") is computed once, before the rounds, but " << type
                             << " is one micro-batch's part: other rounds would read the first's";
  return success();
}

/// With all that is in it and all that it calls.
LogicalResult Rounds::checkOnce(Operation *op) {
  WalkResult result = op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    if (failed(checkTypes(inner, inner->getResultTypes())))
      return WalkResult::interrupt();
    for (Region &region : inner->getRegions())
      for (Block &block : region)
        if (failed(checkTypes(inner, block.getArgumentTypes())))
          return WalkResult::interrupt();
    auto call = dyn_cast<func::CallOp>(inner);
    auto callee = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (callee && functions.insert(callee).second && failed(checkOnce(callee)))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult equivalence::verifyRounds(ModuleOp module) {
  GridAttr grid = GridAttr::lookup(module);
  if (!grid || grid.getMicroBatches() == 1)
    return success();
  Rounds rounds(module);
  for (auto pipeline : module.getOps<PipelineOp>())
    for (auto stage : pipeline.getBody().front().getOps<StageOp>())
      for (Operation &op : stage.getBody().front())
        if (!isa<MicroBatchesOp>(op) && failed(rounds.checkOnce(&op)))
          return failure();
  return success();
}
