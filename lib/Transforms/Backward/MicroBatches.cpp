//===- MicroBatches.cpp - Accumulation over micro-batches -----------------===//

#include "MicroBatches.h"
#include "../Model/Movement.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Dimension of the micro-batches of an input.
static constexpr int64_t kMicroBatchDim = 1;

SmallVector<SymExpr> MicroBatches::getInputSizes(ArrayRef<SymExpr> sizes) const {
  SmallVector<SymExpr> all(sizes);
  if (count > 1)
    all.insert(all.begin() + kMicroBatchDim, SymExpr(count));
  return all;
}

Value MicroBatches::getFirst(OpBuilder &builder, BlockArgument input) {
  if (count == 1)
    return input;
  inputs.insert(input);
  SmallVector<SymExpr> sizes = getSizes(input);
  sizes[kMicroBatchDim] = SymExpr(1);
  Type type = makeTensorType(elementTypeOf(input), sizes);
  Value slice = SliceOp::create(builder, input.getLoc(), type, input, kMicroBatchDim, SymExpr(0));
  sizes.erase(sizes.begin() + kMicroBatchDim);
  return createReshape(builder, input.getLoc(), slice, sizes);
}

LogicalResult MicroBatches::splitInputs(const SymExpr &batch) {
  if (count == 1)
    return success();
  bool found = false;
  OpBuilder builder = OpBuilder::atBlockBegin(&main.front());
  for (BlockArgument input : main.getArguments()) {
    SmallVector<SymExpr> sizes = getSizes(input);
    auto it = llvm::find(sizes, batch);
    if (it == sizes.end())
      continue;
    if (it != sizes.begin())
      return emitError(input.getLoc())
             << "input " << input.getArgNumber() << " has the batch (" << batch.str()
             << ") in dimension " << (it - sizes.begin())
             << "; micro-batches are slices of the first dimension; leave out mb";
    found = true;
    SmallVector<Operation *> users(input.getUsers());
    input.setType(makeTensorType(elementTypeOf(input), getInputSizes(sizes)));
    Value first = getFirst(builder, input);
    for (Operation *user : users)
      user->replaceUsesOfWith(input, first);
  }
  if (!found)
    return emitError(main.getLoc()) << "no input has the first dimension of the logits ("
                                    << batch.str() << "), so there are no micro-batches; leave "
                                    << "out mb";
  return success();
}

void MicroBatches::repeat() {
  if (count == 1)
    return;
  auto isSlice = [&](Operation *op) {
    return isa<SliceOp>(op) && inputs.contains(op->getOperand(0));
  };
  // Slices of the first micro-batch, and all ops that depend on one, in order.
  llvm::SetVector<Operation *> repeated;
  for (Operation &op : main.front().without_terminator())
    if (isSlice(&op) || llvm::any_of(op.getOperands(), [&](Value v) {
          return v.getDefiningOp() && repeated.contains(v.getDefiningOp());
        }))
      repeated.insert(&op);
  Operation *end = main.front().getTerminator();
  llvm::MapVector<Value, Value> sums;
  for (Value result : end->getOperands())
    sums[result] = result;
  OpBuilder builder(end);
  for (int64_t number = 1; number < count; ++number) {
    IRMapping mapping;
    for (Operation *op : repeated) {
      Operation *copy = builder.clone(*op, mapping);
      if (isSlice(copy))
        cast<SliceOp>(copy).setStartAttr(SymExprAttr::get(main.getContext(), SymExpr(number)));
      // Added at once, so that few gradients of a single micro-batch are live.
      for (auto [result, own] : llvm::zip(op->getResults(), copy->getResults()))
        if (auto *sum = sums.find(result); sum != sums.end())
          sum->second = AddOp::create(builder, op->getLoc(), sum->second, own);
    }
  }
  for (OpOperand &operand : end->getOpOperands())
    operand.set(sums[operand.get()]);
}
