//===- AliasCaches.cpp - Cache movements that alias memory ----------------===//

#include "KernelClusters.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_ALIASCACHES
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct AliasCaches : mlir::tpc::impl::AliasCachesBase<AliasCaches> {
  void runOnOperation() override;

private:
  LogicalResult markMovements(PipelineOp pipeline, unsigned input, FlatSymbolRefAttr cache);
  FailureOr<Value> follow(Value value, FlatSymbolRefAttr cache);
};
} // namespace

/// Matches transposes from [b, h, tokens, d] to [b, tokens, h, d] and back.
static bool swapsTokensAndHeads(TransposeOp op) {
  return llvm::equal(op.getPermutation(), ArrayRef<int64_t>{0, 2, 1, 3});
}

/// Whether the use is attention over a cache, whose keys and values are read by strides.
static bool isCacheOfAttention(OpOperand &use) {
  auto attention = dyn_cast<AttentionOp>(use.getOwner());
  return attention && attention.getLengths() &&
         (&use == &attention.getKMutable() || &use == &attention.getVMutable());
}

/// Marks the transpose of new tokens before an append, and the transpose of the cache before
/// attention that reads it by strides. The first is not marked if a kernel writes the new tokens
/// directly into the cache: a kernel that computes them, or one that appends to both caches.
static void markTransposes(AppendOp append) {
  Builder b(append.getContext());
  if (auto fresh = append.getFresh().getDefiningOp<TransposeOp>();
      fresh && !TargetTraits::get(append).mergesAttentionOperands && swapsTokensAndHeads(fresh) &&
      !isComputedByKernel(fresh.getOperand().getDefiningOp()) &&
      llvm::all_of(fresh->getUses(), [](OpOperand &use) {
        return isa<AppendOp>(use.getOwner()) && use.getOperandNumber() == 1;
      }))
    fresh->setAttr(kAliasedAttr, b.getUnitAttr());
  for (Operation *user : append.getResult().getUsers())
    if (auto transpose = dyn_cast<TransposeOp>(user);
        transpose && swapsTokensAndHeads(transpose) &&
        llvm::all_of(transpose->getUses(), isCacheOfAttention))
      transpose->setAttr(kAliasedAttr, b.getUnitAttr());
}

/// Returns the ops that compute the indices of a gather from a constant in this block, beginning
/// with the constant. Empty for other indices.
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

/// Returns whether the indices are 0, 1, ..., heads - 1 in order, each equally often.
static bool repeatsHeads(ConstantOp indices, std::optional<int64_t> heads) {
  auto list = dyn_cast<DenseIntElementsAttr>(indices.getValue());
  if (!list || list.empty() || !heads || *heads < 1 || list.getNumElements() % *heads)
    return false;
  int64_t times = list.getNumElements() / *heads, next = 0;
  return llvm::all_of(list.getValues<APInt>(),
                      [&](const APInt &head) { return head.getSExtValue() == next++ / times; });
}

/// Returns whether the use selects this rank's shard or replicates KV heads, and thus describes the
/// layout of the rank's cache.
static bool isShardOfCache(OpOperand &use) {
  auto gather = dyn_cast<GatherOp>(use.getOwner());
  if (!gather)
    return isa<LocalSliceOp, ExpandOp, ReshapeOp>(use.getOwner());
  if (use.getOperandNumber() != 0 || gather.getDim() != 1)
    return false;
  SmallVector<Operation *> indices = getFixedIndices(gather);
  return !indices.empty() && repeatsHeads(cast<ConstantOp>(indices.front()),
                                          getSizes(gather.getData())[1].asConstant());
}

/// Marks the index computation of aliased gathers, which needs no code either.
static void markIndices(GatherOp gather) {
  for (Operation *op : llvm::drop_begin(getFixedIndices(gather)))
    if (llvm::all_of(op->getUsers(), [](Operation *user) { return user->hasAttr(kAliasedAttr); }))
      op->setAttr(kAliasedAttr, UnitAttr::get(op->getContext()));
}

/// Returns all calls of a function; empty if it has uses other than calls.
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

/// Moves `movement`, a movement op on a function's argument, into the callers.
static void hoist(Operation *movement, BlockArgument argument, ArrayRef<func::CallOp> calls) {
  SmallVector<Operation *> moved;
  if (auto gather = dyn_cast<GatherOp>(movement))
    moved = getFixedIndices(gather);
  moved.push_back(movement);
  unsigned index = argument.getArgNumber();
  for (func::CallOp call : calls) {
    OpBuilder before(call);
    IRMapping outside;
    outside.map(argument, call.getOperand(index));
    for (Operation *op : moved)
      before.clone(*op, outside);
    call.setOperand(index, outside.lookup(movement->getResult(0)));
  }
  argument.setType(movement->getResult(0).getType());
  movement->getResult(0).replaceAllUsesWith(argument);
  for (Operation *op : llvm::reverse(moved))
    if (op->use_empty()) // gathers of other caches may use the same indices
      op->erase();
  auto callee = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  callee.setType(
      callee.getFunctionType().clone(callee.front().getArgumentTypes(), callee.getResultTypes()));
}

/// Hoists movement ops on a cache from functions into their callers, so that functions receive the
/// rank's shard. All calls of a function are changed together.
static void hoistMovements(Value value) {
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    if (isShardOfCache(use)) {
      value = use.getOwner()->getResult(0);
      continue;
    }
    auto call = dyn_cast<func::CallOp>(use.getOwner());
    if (!call)
      return;
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    BlockArgument argument = callee.getArgument(use.getOperandNumber());
    hoistMovements(argument);
    SmallVector<func::CallOp> calls = getCalls(callee);
    if (calls.empty() || !argument.hasOneUse() || !isShardOfCache(*argument.use_begin()))
      return;
    hoist(*argument.user_begin(), argument, calls);
  }
}

/// Follows a cache from its value before the step to its value after the step. An error if no op
/// appends to it.
FailureOr<Value> AliasCaches::follow(Value value, FlatSymbolRefAttr cache) {
  if (!value.hasOneUse()) {
    for (Operation *user : value.getUsers())
      if (isa<AppendOp, func::CallOp>(user))
        return user->emitOpError()
               << "writes cache " << cache << " in place, but its old value has other uses";
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
    return call.emitOpError() << "appends to cache " << cache << ", but does not return it";
  }
  return user->emitOpError() << "uses cache " << cache
                             << ", whose old value only tpc.append may use";
}

LogicalResult AliasCaches::markMovements(PipelineOp pipeline, unsigned input,
                                         FlatSymbolRefAttr cache) {
  Value value = pipeline.getBody().front().getArgument(input);
  UnitAttr mark = UnitAttr::get(&getContext());
  hoistMovements(value);
  while (value.hasOneUse() && isShardOfCache(*value.use_begin())) {
    Operation *move = *value.user_begin();
    move->setAttr(kAliasedAttr, mark);
    if (auto gather = dyn_cast<GatherOp>(move))
      markIndices(gather);
    value = move->getResult(0);
  }
  DimAttr batch = getDist(value).getDims().empty() ? DimAttr() : getDist(value).getDims()[0];
  bool inMicroBatches = batch && batch.usesAxis(kMicroBatchAxis);
  if (inMicroBatches &&
      (batch.getFactors().size() != 1 || batch.getFactors()[0].getAxes().empty() ||
       batch.getFactors()[0].getAxes().back().getValue() != kMicroBatchAxis))
    return emitError(value.getLoc()) << "cache " << cache << " is split as " << batch
                                     << ", so that a micro-batch is not contiguous";
  FailureOr<Value> after = follow(value, cache);
  if (failed(after))
    return failure();
  for (Operation *user : after->getUsers())
    if (isa<AppendOp>(user))
      return user->emitOpError() << "appends to cache " << cache << " for a second time in a step";
  if (getDist(*after).getDims() != getDist(value).getDims())
    return emitError(after->getLoc()) << "cache " << cache << " is " << after->getType()
                                      << " after a step, but " << value.getType() << " before";
  for (Operation *user : after->getUsers())
    if (auto output = dyn_cast<OutputOp>(user))
      if (auto attrs = dyn_cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]);
          getCache(attrs) == cache)
        return success();
  return emitError(after->getLoc())
         << "cache " << cache << " is appended to here, but its output is another value";
}

/// Checks that caches and updates are the last inputs or outputs: the executable numbers inputs and
/// outputs without them.
static LogicalResult checkOrder(PipelineOp pipeline, StringRef what, ArrayAttr all) {
  bool seen = false;
  for (auto attrs : all.getAsRange<DictionaryAttr>()) {
    if (seen && !staysOnRanks(attrs))
      return pipeline.emitOpError()
             << "has " << what << " after a cache or an update, but these must be last";
    seen |= staysOnRanks(attrs);
  }
  return success();
}

void AliasCaches::runOnOperation() {
  getOperation().walk(markTransposes);
  for (PipelineOp pipeline : getOperation().getOps<PipelineOp>()) {
    if (failed(checkOrder(pipeline, "an input", pipeline.getInputAttrs())) ||
        failed(checkOrder(pipeline, "an output", pipeline.getOutputs())))
      return signalPassFailure();
    for (auto [i, attrs] : llvm::enumerate(pipeline.getInputAttrs().getAsRange<DictionaryAttr>()))
      if (FlatSymbolRefAttr cache = getCache(attrs);
          cache && failed(markMovements(pipeline, i, cache)))
        return signalPassFailure();
  }
}
