//===- AccumulateOps.cpp - Sums over micro-batches ------------------------===//

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;

#define GET_OP_CLASSES
#include "tpc/Dialect/AccumulateOps.cpp.inc"

Type mlir::tpc::getAccumulatedType(Type type) {
  DistAttr dist = getDist(type);
  SmallVector<StringAttr> axes;
  for (StringAttr axis : dist.getPartialAxes())
    if (axis.getValue() != kMicroBatchAxis)
      axes.push_back(axis);
  PartialAttr partial;
  if (!axes.empty())
    partial = PartialAttr::get(type.getContext(), dist.getPartial().getKind(), axes);
  dist = dist.withPartial(partial);
  auto tensor = cast<RankedTensorType>(type);
  bool isPlain = !partial && !dist.isSharded() && llvm::all_of(dist.getDims(), [](DimAttr dim) {
    return dim.getExpr().isConstant();
  });
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType(),
                               isPlain ? Attribute() : dist);
}

AccumulatedOp mlir::tpc::findAccumulated(StageOp stage, int64_t index) {
  AccumulatedOp found;
  stage.walk([&](AccumulatedOp op) {
    if (int64_t(op.getIndex()) == index)
      found = op;
  });
  return found;
}

/// Checks that the op is in a loop of a stage, and that no other op of its kind has its index.
template <typename OpT> static LogicalResult checkLoopAndIndex(OpT op) {
  auto loop = dyn_cast<MicroBatchesOp>(op->getParentOp());
  if (!loop)
    return op.emitOpError("must be in a tpc.micro_batches of a pipeline stage");
  WalkResult alone = loop->getParentOp()->walk([&](OpT other) {
    return other != op && other.getIndex() == op.getIndex() ? WalkResult::interrupt()
                                                            : WalkResult::advance();
  });
  if (alone.wasInterrupted())
    return op.emitOpError() << "has the index " << op.getIndex()
                            << ", which another op of this kind in the stage has";
  return success();
}

LogicalResult AccumulateOp::verify() {
  if (failed(checkLoopAndIndex(*this)))
    return failure();
  PartialAttr partial = getDist(getValue()).getPartial();
  if (!partial || partial.getKind() != ReductionKind::Sum ||
      llvm::none_of(partial.getAxes(),
                    [](StringAttr axis) { return axis.getValue() == kMicroBatchAxis; }))
    return emitOpError() << "needs an operand that is unreduced over mb (sum), not "
                         << getValue().getType();
  if (!getElementTypeOrSelf(getValue()).isF32())
    return emitOpError() << "needs an operand of f32, not of " << getElementTypeOrSelf(getValue());
  return success();
}

AccumulateOp AccumulatedOp::getSource() {
  AccumulateOp source;
  if (auto stage = (*this)->getParentOfType<StageOp>())
    stage.walk([&](AccumulateOp op) {
      if (op.getIndex() == getIndex())
        source = op;
    });
  return source;
}

LogicalResult AccumulatedOp::verify() {
  if (failed(checkLoopAndIndex(*this)))
    return failure();
  AccumulateOp source = getSource();
  Operation *loop = source ? source->getParentOp() : nullptr;
  if (!loop || loop == (*this)->getParentOp() || !loop->isBeforeInBlock((*this)->getParentOp()))
    return emitOpError() << "reads sum " << getIndex()
                         << ", to which no loop before it adds in this stage";
  if (getType() != getAccumulatedType(source.getValue().getType()))
    return emitOpError() << "returns " << getType() << ", but the sum of "
                         << source.getValue().getType() << " is "
                         << getAccumulatedType(source.getValue().getType());
  return success();
}
