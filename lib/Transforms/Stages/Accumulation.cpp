//===- Accumulation.cpp - Sums over micro-batches -------------------------===//

#include "Accumulation.h"
#include "PipelineChain.h"

#include "tpc/Dialect/Dist.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tpc;

static bool isMicroBatchAxis(Attribute axis) {
  return cast<StringAttr>(axis).getValue() == kMicroBatchAxis;
}

bool mlir::tpc::isSumOverMicroBatches(Operation *op) {
  auto reduction = dyn_cast_or_null<AllReduceOp>(op);
  return reduction && llvm::any_of(reduction.getAxes(), isMicroBatchAxis);
}

/// Divides reductions over mb and other axes: first over mb, then over the others.
void Accumulation::splitReductions() {
  for (Operation &op : llvm::make_early_inc_range(main.front())) {
    if (!isSumOverMicroBatches(&op))
      continue;
    auto reduction = cast<AllReduceOp>(op);
    SmallVector<Attribute> rest;
    llvm::copy_if(reduction.getAxes(), std::back_inserter(rest),
                  [](Attribute axis) { return !isMicroBatchAxis(axis); });
    if (rest.empty()) {
      sums.push_back(reduction);
      continue;
    }
    OpBuilder b(reduction);
    sums.push_back(AllReduceOp::create(
        b, reduction.getLoc(), getAccumulatedType(reduction.getOperand().getType()),
        reduction.getOperand(), b.getStrArrayAttr({kMicroBatchAxis})));
    reduction.getOperandMutable().assign(sums.back());
    reduction.setAxesAttr(b.getArrayAttr(rest));
  }
}

/// Returns the ONNX node and the kind of an op for messages.
static std::string quoteWithName(Operation *op) {
  return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
}

LogicalResult Accumulation::findUpdate() {
  DenseMap<Operation *, Operation *> sumOf; // by op that needs a sum
  for (AllReduceOp sum : sums)
    sumOf[sum] = sum;
  DenseSet<Operation *> needed;
  for (Operation &op : main.front()) {
    for (Value operand : op.getOperands())
      if (Operation *sum = sumOf.lookup(operand.getDefiningOp()); sum && !sumOf.contains(&op))
        sumOf[&op] = sum;
    if (!sumOf.contains(&op) || llvm::is_contained(sums, dyn_cast<AllReduceOp>(op)) ||
        op.hasTrait<OpTrait::IsTerminator>())
      continue;
    needed.insert(&op);
  }
  // Ops of one micro-batch must not depend on a sum, nor the update on values of one micro-batch.
  for (Operation *op : needed) {
    SmallVector<Value> values(op->getOperands());
    llvm::append_range(values, op->getResults());
    for (Value value : values)
      if (isa<RankedTensorType>(value.getType()) && getDist(value).usesAxis(kMicroBatchAxis)) {
        InFlightDiagnostic diag =
            op->emitError() << quoteWithName(op) << " combines the sum of all micro-batches with "
                            << "a value of one; remove mb from --megatron-shard";
        diag.attachNote(sumOf.lookup(op)->getLoc()) << "summed here";
        return diag;
      }
  }
  for (AllReduceOp sum : sums)
    if (Operation *before = sum.getOperand().getDefiningOp(); before && needed.contains(before))
      return sum.emitError() << quoteWithName(sum)
                             << " sums over micro-batches, but depends on another "
                             << "sum over micro-batches; remove mb from --megatron-shard";
  // Values that are the same in all micro-batches are recomputed.
  llvm::SetVector<BlockArgument> arguments;
  auto addOperand = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      arguments.insert(cast<BlockArgument>(value));
    else if (!llvm::is_contained(sums, dyn_cast<AllReduceOp>(op)))
      needed.insert(op);
  };
  for (Operation &op : llvm::reverse(main.front().without_terminator()))
    if (needed.contains(&op))
      for (Value operand : op.getOperands())
        addOperand(operand);
  for (Operation &op : main.front())
    if (needed.contains(&op))
      updateOps.push_back(&op);
  inputs = arguments.takeVector();
  return success();
}

LogicalResult Accumulation::take() {
  auto module = main->getParentOfType<ModuleOp>();
  for (auto function : module.getOps<func::FuncOp>())
    if (function != main)
      for (Operation &op : function.getOps())
        if (isSumOverMicroBatches(&op))
          return op.emitError() << quoteWithName(&op) << " sums over micro-batches in a layer";
  splitReductions();
  if (isEmpty())
    return success();
  MeshAttr grid = MeshAttr::lookup(module);
  if (grid.getAxisSize(kPipelineAxis) * grid.getChunksPerRank() > 1)
    return sums.front().emitError()
           << quoteWithName(sums.front())
           << " combines micro-batches, which pipeline stages do not support; remove mb or pp "
           << "from --megatron-shard";
  if (failed(findUpdate()))
    return failure();

  Operation *end = main.front().getTerminator();
  DenseSet<Operation *> inUpdate(updateOps.begin(), updateOps.end());
  SmallVector<Value> arguments, results, kept;
  for (AllReduceOp sum : sums) {
    arguments.push_back(sum);
    sumTypes.push_back(sum.getType());
    locations.push_back(sum.getLoc());
  }
  arguments.append(inputs.begin(), inputs.end());
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    Operation *op = value.getDefiningOp();
    bool needsSum = op && (inUpdate.contains(op) || isSumOverMicroBatches(op));
    resultOf.push_back(needsSum ? int64_t(results.size()) : -1);
    (needsSum ? results : kept).push_back(value);
    DictionaryAttr attrs = main.getResultAttrDict(i);
    resultAttrs.push_back(attrs ? attrs : DictionaryAttr::get(main.getContext()));
  }
  OpBuilder b(main);
  b.setInsertionPointAfter(main);
  update = cloneAsFunction(b, main.getLoc(), "update", updateOps, arguments, results);
  SymbolTable(module).insert(update, std::next(main->getIterator()));

  for (AllReduceOp sum : sums)
    kept.push_back(sum.getOperand());
  end->setOperands(kept);
  main.removeResAttrsAttr();
  main.setType(b.getFunctionType(main.getArgumentTypes(), end->getOperandTypes()));
  // Keeps ops whose results the remaining program also uses.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
    if (op.use_empty() && (inUpdate.contains(&op) || isSumOverMicroBatches(&op)))
      op.erase();
  return success();
}

void Accumulation::restore() {
  if (isEmpty())
    return;
  Operation *end = main.front().getTerminator();
  OpBuilder b(end);
  SmallVector<Value> values(end->getOperands()), operands;
  for (auto [type, loc, term] :
       llvm::zip_equal(sumTypes, locations, ArrayRef<Value>(values).take_back(sumTypes.size())))
    operands.push_back(
        AllReduceOp::create(b, loc, type, term, b.getStrArrayAttr({kMicroBatchAxis})));
  operands.append(inputs.begin(), inputs.end());
  auto call = func::CallOp::create(b, main.getLoc(), update, operands);
  SmallVector<Value> results;
  unsigned next = 0;
  for (int64_t index : resultOf)
    results.push_back(index < 0 ? values[next++] : call.getResult(index));
  end->setOperands(results);
  main.setType(b.getFunctionType(main.getArgumentTypes(), end->getOperandTypes()));
  main.setAllResultAttrs(resultAttrs);
}
