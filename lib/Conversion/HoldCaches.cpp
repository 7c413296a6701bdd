//===- HoldCaches.cpp - What is not computed as caches are memory ---------===//

#include "KernelClusters.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_HOLDCACHES
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct HoldCaches : mlir::tpc::impl::HoldCachesBase<HoldCaches> {
  void runOnOperation() override;

private:
  LogicalResult hold(PipelineOp pipeline, unsigned input, FlatSymbolRefAttr cache);
  FailureOr<Value> follow(Value value, FlatSymbolRefAttr cache);
};
} // namespace

/// [b, tokens, h, d] from [b, h, tokens, d], or back.
static bool swapsTokensAndHeads(TransposeOp op) {
  return llvm::equal(op.getPermutation(), ArrayRef<int64_t>{0, 2, 1, 3});
}

/// Attention takes keys and values of a cache by strides.
static bool isReadByStrides(OpOperand &use) {
  auto attention = dyn_cast<AttentionOp>(use.getOwner());
  return attention && attention.getLengths() &&
         (&use == &attention.getKMutable() || &use == &attention.getVMutable());
}

/// A kernel that computes new keys writes them where they belong.
static void holdTransposes(AppendOp append) {
  Builder b(append.getContext());
  if (auto fresh = append.getFresh().getDefiningOp<TransposeOp>();
      fresh && swapsTokensAndHeads(fresh) && !isOfKernels(fresh.getOperand().getDefiningOp()) &&
      llvm::all_of(fresh->getUses(), [](OpOperand &use) {
        return isa<AppendOp>(use.getOwner()) && use.getOperandNumber() == 1;
      }))
    fresh->setAttr(kHeldAttr, b.getUnitAttr());
  for (Operation *user : append.getResult().getUsers())
    if (auto transpose = dyn_cast<TransposeOp>(user);
        transpose && swapsTokensAndHeads(transpose) &&
        llvm::all_of(transpose->getUses(), isReadByStrides))
      transpose->setAttr(kHeldAttr, b.getUnitAttr());
}

/// The indices of a gather, where they are a part of a constant of this block: what makes them, the
/// constant first. Empty if they are anything else.
static SmallVector<Operation *> getFixedIndices(GatherOp gather) {
  SmallVector<Operation *> ops;
  Operation *op = gather.getIndices().getDefiningOp();
  while (isa_and_nonnull<LocalSliceOp>(op)) {
    ops.push_back(op);
    op = op->getOperand(0).getDefiningOp();
  }
  if (!isa_and_nonnull<ConstantOp>(op))
    return {};
  ops.push_back(op);
  return llvm::to_vector(llvm::reverse(ops));
}

/// Whether indices take each of `heads`, one after the other and all as often.
static bool repeatsHeads(ConstantOp indices, std::optional<int64_t> heads) {
  auto list = dyn_cast<DenseIntElementsAttr>(indices.getValue());
  if (!list || list.empty() || !heads || *heads < 1 || list.getNumElements() % *heads)
    return false;
  int64_t times = list.getNumElements() / *heads, next = 0;
  return llvm::all_of(list.getValues<APInt>(),
                      [&](const APInt &head) { return head.getSExtValue() == next++ / times; });
}

/// Copies of kv heads and this rank's part: what a rank holds of a cache.
static bool isPartOfCache(OpOperand &use) {
  auto gather = dyn_cast<GatherOp>(use.getOwner());
  if (!gather)
    return isa<LocalSliceOp, ExpandOp, ReshapeOp>(use.getOwner());
  if (use.getOperandNumber() != 0 || gather.getDim() != 1)
    return false;
  SmallVector<Operation *> indices = getFixedIndices(gather);
  return !indices.empty() && repeatsHeads(cast<ConstantOp>(indices.front()),
                                          getSizes(gather.getData())[1].asConstant());
}

/// Nobody computes the indices of a gather that nobody computes.
static void holdIndices(GatherOp gather) {
  for (Operation *op : llvm::drop_begin(getFixedIndices(gather)))
    if (llvm::all_of(op->getUsers(), [](Operation *user) { return user->hasAttr(kHeldAttr); }))
      op->setAttr(kHeldAttr, UnitAttr::get(op->getContext()));
}

/// The calls of a function, if it is used by calls alone.
static SmallVector<func::CallOp> getCalls(func::FuncOp function) {
  SmallVector<func::CallOp> calls;
  auto uses = SymbolTable::getSymbolUses(function, function->getParentOp());
  if (!uses)
    return {};
  for (const SymbolTable::SymbolUse &use : *uses)
    if (auto call = dyn_cast<func::CallOp>(use.getUser()))
      calls.push_back(call);
    else
      return {};
  return calls;
}

/// What a function does first to an argument, its callers do.
static void raise(Operation *part, BlockArgument argument, ArrayRef<func::CallOp> calls) {
  SmallVector<Operation *> moved;
  if (auto gather = dyn_cast<GatherOp>(part))
    moved = getFixedIndices(gather);
  moved.push_back(part);
  unsigned index = argument.getArgNumber();
  for (func::CallOp call : calls) {
    OpBuilder before(call);
    IRMapping outside;
    outside.map(argument, call.getOperand(index));
    for (Operation *op : moved)
      before.clone(*op, outside);
    call.setOperand(index, outside.lookup(part->getResult(0)));
  }
  argument.setType(part->getResult(0).getType());
  part->getResult(0).replaceAllUsesWith(argument);
  for (Operation *op : llvm::reverse(moved))
    if (op->use_empty()) // gathers of other caches may have the same indices
      op->erase();
  auto callee = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  callee.setType(
      callee.getFunctionType().clone(callee.front().getArgumentTypes(), callee.getResultTypes()));
}

/// What functions do to a whole cache that they are given, their callers do, so that calls are
/// given what a rank holds. Of a function that several layers or stages call, all of them.
static void raiseParts(Value value) {
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    if (isPartOfCache(use)) {
      value = use.getOwner()->getResult(0);
      continue;
    }
    auto call = dyn_cast<func::CallOp>(use.getOwner());
    if (!call)
      return;
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    BlockArgument argument = callee.getArgument(use.getOperandNumber());
    raiseParts(argument);
    SmallVector<func::CallOp> calls = getCalls(callee);
    if (calls.empty() || !argument.hasOneUse() || !isPartOfCache(*argument.use_begin()))
      return;
    raise(*argument.user_begin(), argument, calls);
  }
}

/// From what a cache holds at the beginning to what it holds at the end: null if that is not in
/// this block, as nobody appends to it.
FailureOr<Value> HoldCaches::follow(Value value, FlatSymbolRefAttr cache) {
  if (!value.hasOneUse()) {
    for (Operation *user : value.getUsers())
      if (isa<AppendOp, func::CallOp>(user))
        return user->emitOpError() << "writes cache " << cache
                                   << " in place, whose old value is used elsewhere as well";
    return emitError(value.getLoc())
           << "cache " << cache << " is used by "
           << std::distance(value.use_begin(), value.use_end()) << " ops, and none appends to it";
  }
  OpOperand &use = *value.use_begin();
  Operation *user = use.getOwner();
  if (auto append = dyn_cast<AppendOp>(user); append && use.getOperandNumber() == 0)
    return append.getResult();
  if (auto call = dyn_cast<func::CallOp>(user)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    FailureOr<Value> inside = follow(callee.getArgument(use.getOperandNumber()), cache);
    if (failed(inside))
      return failure();
    for (OpOperand &end : inside->getUses())
      if (end.getOwner()->hasTrait<OpTrait::ReturnLike>())
        return call.getResult(end.getOperandNumber());
    return call.emitOpError() << "appends to cache " << cache << ", and does not return it";
  }
  return user->emitOpError() << "uses cache " << cache
                             << ", of which only tpc.append takes the old value";
}

LogicalResult HoldCaches::hold(PipelineOp pipeline, unsigned input, FlatSymbolRefAttr cache) {
  Value value = pipeline.getBody().front().getArgument(input);
  UnitAttr mark = UnitAttr::get(&getContext());
  raiseParts(value);
  while (value.hasOneUse() && isPartOfCache(*value.use_begin())) {
    Operation *move = *value.user_begin();
    move->setAttr(kHeldAttr, mark);
    if (auto gather = dyn_cast<GatherOp>(move))
      holdIndices(gather);
    value = move->getResult(0);
  }
  DimAttr batch = getDist(value).getDims().empty() ? DimAttr() : getDist(value).getDims()[0];
  bool inRounds = batch && batch.usesAxis("mb");
  if (inRounds && (batch.getFactors().size() != 1 || batch.getFactors()[0].getAxes().empty() ||
                   batch.getFactors()[0].getAxes().back().getValue() != "mb"))
    return emitError(value.getLoc()) << "cache " << cache << " is split as " << batch
                                     << ", of which a micro-batch is no range";
  FailureOr<Value> after = follow(value, cache);
  if (failed(after))
    return failure();
  for (Operation *user : after->getUsers())
    if (isa<AppendOp>(user))
      return user->emitOpError() << "appends to cache " << cache << " for a second time in a step";
  if (getDist(*after).getDims() != getDist(value).getDims())
    return emitError(after->getLoc()) << "cache " << cache << " is " << after->getType()
                                      << " after a step, and " << value.getType() << " before";
  for (Operation *user : after->getUsers())
    if (auto output = dyn_cast<OutputOp>(user))
      if (auto attrs = dyn_cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]);
          getCache(attrs) == cache)
        return success();
  return emitError(after->getLoc())
         << "cache " << cache
         << " is appended to here, and the result that has it is another value";
}

/// Inputs and outputs keep their numbers.
static LogicalResult checkOrder(PipelineOp pipeline, StringRef what, ArrayAttr all) {
  bool seen = false;
  for (auto attrs : all.getAsRange<DictionaryAttr>()) {
    if (seen && !getCache(attrs))
      return pipeline.emitOpError() << "has " << what << " behind a cache: caches come last";
    seen |= bool(getCache(attrs));
  }
  return success();
}

void HoldCaches::runOnOperation() {
  getOperation().walk(holdTransposes);
  for (PipelineOp pipeline : getOperation().getOps<PipelineOp>()) {
    if (failed(checkOrder(pipeline, "an input", pipeline.getInputAttrs())) ||
        failed(checkOrder(pipeline, "an output", pipeline.getOutputs())))
      return signalPassFailure();
    for (auto [i, attrs] : llvm::enumerate(pipeline.getInputAttrs().getAsRange<DictionaryAttr>()))
      if (FlatSymbolRefAttr cache = getCache(attrs); cache && failed(hold(pipeline, i, cache)))
        return signalPassFailure();
  }
}
