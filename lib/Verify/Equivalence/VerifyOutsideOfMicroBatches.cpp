//===- VerifyOutsideOfMicroBatches.cpp - Values outside of loops ----------===//
//
// An op of a stage outside of the micro-batch loops runs once, and all iterations read its result.
// By SSA dominance, its operands are unsharded inputs and results of other ops outside of the
// loops. Therefore the result can differ from the result of the op inside the loop only if the op
// takes one micro-batch's slice of a value. Its type then has the axis mb, and RelationChecker has
// verified the types.
//
//===----------------------------------------------------------------------===//

#include "Lemmas.h"

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {
class OutsideOfMicroBatches {
public:
  explicit OutsideOfMicroBatches(ModuleOp module) : module(module) {}
  LogicalResult checkOp(Operation *op);

private:
  LogicalResult checkTypes(Operation *op, TypeRange types);

  ModuleOp module;
  DenseSet<Operation *> functions;
};
} // namespace

LogicalResult OutsideOfMicroBatches::checkTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (isa<RankedTensorType>(type) && getDist(type).usesAxis(kMicroBatchAxis))
      return op->emitError()
             << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
             << ") is computed once, before the micro-batch loop, but " << type
             << " is one micro-batch's part: other iterations would read the first's";
  return success();
}

/// Checks an op, its regions, and its callees.
LogicalResult OutsideOfMicroBatches::checkOp(Operation *op) {
  WalkResult result = op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    if (failed(checkTypes(inner, inner->getResultTypes())))
      return WalkResult::interrupt();
    for (Region &region : inner->getRegions())
      for (Block &block : region)
        if (failed(checkTypes(inner, block.getArgumentTypes())))
          return WalkResult::interrupt();
    auto call = dyn_cast<func::CallOp>(inner);
    auto callee = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (callee && functions.insert(callee).second && failed(checkOp(callee)))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult equivalence::verifyOutsideOfMicroBatches(ModuleOp module) {
  MeshAttr grid = MeshAttr::lookup(module);
  if (!grid || grid.getMicroBatches() == 1)
    return success();
  OutsideOfMicroBatches outside(module);
  for (auto pipeline : module.getOps<PipelineOp>())
    for (auto stage : pipeline.getBody().front().getOps<StageOp>())
      for (Operation &op : stage.getBody().front())
        if (!isa<MicroBatchesOp>(op) && failed(outside.checkOp(&op)))
          return failure();
  return success();
}
