//===- BufferUpdates.cpp - Parameters that are updated in place -----------===//

#include "BufferPlanner.h"
#include "tpc/Dialect/State.h"
#include "tpc/Kernel/Kernel.h"

using namespace mlir;
using namespace mlir::tpc;

ParameterOp BufferPlanner::getOverwritten(OutputOp output) const {
  auto pipeline = output->getParentOfType<PipelineOp>();
  auto update = Update::get(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]));
  auto call = output.getValue().getDefiningOp<func::CallOp>();
  ModuleOp kernels = kernel::getKernels(shared.module);
  auto kernel = update && call && kernels ? kernels.lookupSymbol<kernel::FuncOp>(call.getCallee())
                                          : kernel::FuncOp();
  // The arguments of kernels that append to caches are not the operands of the call.
  if (!kernel || kernel.getOperandMemory().size() != call.getNumOperands())
    return {};
  auto operand = kernel.getOverwritten(cast<OpResult>(output.getValue()).getResultNumber());
  auto parameter = operand ? call.getOperand(*operand).getDefiningOp<ParameterOp>() : ParameterOp();
  bool isUpdated = parameter && parameter.getWeightAttr() == update->weight &&
                   parameter.getViewAttr() == update->view &&
                   parameter.getType() == output.getValue().getType();
  return isUpdated ? parameter : ParameterOp();
}

bool BufferPlanner::isReadBefore(Value value, func::CallOp call,
                                 const DenseMap<Operation *, int64_t> &position) const {
  Operation *loop = call->getParentOp();
  for (Operation *user : value.getUsers()) {
    // A value with the same memory is used in place of this one.
    if (user->getNumResults() == 1 && getAliased(user->getResult(0)) == value) {
      if (!isReadBefore(user->getResult(0), call, position))
        return false;
      continue;
    }
    if (user == call)
      continue;
    if (Operation *here = call->getBlock()->findAncestorOpInBlock(*user)) {
      if (position.lookup(here) >= position.lookup(call))
        return false;
    } else if (Operation *other = loop->getBlock()->findAncestorOpInBlock(*user);
               !other || !other->isBeforeInBlock(loop)) {
      return false;
    }
  }
  return true;
}

void BufferPlanner::updateInPlace(Block &block, ArrayRef<Operation *> ops,
                                  const DenseMap<Operation *, int64_t> &position) {
  auto loop = dyn_cast<MicroBatchesOp>(block.getParentOp());
  if (!loop || loop.getBatchAttr()) // a loop that may run several times
    return;
  DenseMap<Attribute, SmallVector<ParameterOp>> parameters; // by weight
  shared.module.walk(
      [&](ParameterOp parameter) { parameters[parameter.getWeightAttr()].push_back(parameter); });
  for (Operation *op : ops) {
    auto output = dyn_cast<OutputOp>(op);
    ParameterOp parameter = output ? getOverwritten(output) : ParameterOp();
    if (!parameter || !output.getValue().hasOneUse())
      continue;
    auto call = output.getValue().getDefiningOp<func::CallOp>();
    if (call->getBlock() != &block)
      continue;
    auto isReadBeforeCall = [&](ParameterOp other) {
      bool isOther = other.getViewAttr() && parameter.getViewAttr() &&
                     other.getViewAttr() != parameter.getViewAttr(); // other elements
      return isOther || ((other == parameter || !llvm::is_contained(other->getUsers(), call)) &&
                         other->getParentOfType<StageOp>() && isReadBefore(other, call, position));
    };
    if (llvm::count(call.getOperands(), parameter.getResult()) != 1 ||
        !llvm::all_of(parameters[parameter.getWeightAttr()], isReadBeforeCall))
      continue;
    inPlace.insert(output.getValue());
    buffers[output.getValue()] = getBuffer(parameter);
  }
}
