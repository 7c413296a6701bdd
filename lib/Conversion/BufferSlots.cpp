//===- BufferSlots.cpp - Assignment of values to slots of a frame ---------===//

#include "BufferPlanner.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

SymExpr mlir::tpc::roundUpToSlot(const SymExpr &bytes) {
  return SymExpr(64) * SymExpr::floorDiv(bytes + SymExpr(63), SymExpr(64));
}

// The live range of a value is the interval of the block's ops from its definition to the last use
// of the value or of its aliases.
void BufferPlanner::findSlots(Block &block, ArrayRef<Operation *> ops, ValueRange results) {
  fusions = findProductFusions(block, shared.parameters);
  fusionOf.clear();
  for (const ProductFusion &fusion : fusions)
    for (Operation *op : fusion.ops)
      fusionOf[op] = &fusion;
  DenseMap<Operation *, int64_t> position;
  int64_t next = 0;
  for (Operation *at : ops) {
    Operation &op = *at;
    position[&op] = next++;
    // Merged matmuls and their epilogues are one runtime call, so their operands and results are
    // live at the same time.
    auto matmul = dyn_cast<MatmulOp>(op);
    if (matmul && op.hasAttr(kMergedAttr))
      position[&op] = position[getMerged(matmul).front()];
    else if (auto grad = dyn_cast<AttentionGradOp>(op))
      position[&op] = position[grad.getMerged().front()];
    else if (auto fused = op.getAttrOfType<IntegerAttr>(kFusedAttr))
      position[&op] = position[op.getOperand(fused.getInt()).getDefiningOp()];
    // A fusion of a norm, matmuls and an activation is one runtime call as well.
    if (const ProductFusion *fusion = fusionOf.lookup(&op))
      position[&op] = position[fusion->getFirst()];
  }

  updateInPlace(block, ops, position);

  // Results are in the caller's buffers, which are live during the entire function.
  SmallVector<Value> operands;
  if (Operation *terminator = block.mightHaveTerminator() ? block.getTerminator() : nullptr)
    for (auto [i, operand] : llvm::enumerate(terminator->getOperands()))
      if (!isa<func::FuncOp>(block.getParentOp()) ||
          !shared.getAppended(cast<func::FuncOp>(block.getParentOp()), i))
        operands.push_back(operand);
  if (!results.empty())
    for (auto [operand, out] : llvm::zip_equal(operands, results)) {
      Value root = operand;
      while (auto op = root.getDefiningOp<HostOpInterface>()) {
        if (!op.isHostOp() || !op.getAliased() || !op.isSameMemory())
          break;
        root = op.getAliased();
      }
      auto op = root.getDefiningOp<HostOpInterface>();
      if (op && op.isHostOp() && op.needsMemory() && !op.getAliased() && !buffers.count(root))
        buffers[root] = out;
      else
        copies.push_back({out, operand});
    }

  // Returns the last position at which an op reads its operands. An asynchronous collective does
  // so until its wait. A matmul that is computed in chunks reads them until the all-reduce of these
  // chunks starts.
  auto getReadEnd = [&](Operation *op) {
    int64_t end = position[op];
    if (auto matmul = dyn_cast<MatmulOp>(op))
      if (AllReduceStartOp start = getChunkedStart(matmul))
        return std::max(end, position[start]);
    if (isa<AllReduceStartOp>(op))
      for (Operation *user : op->getUsers())
        if (Operation *inBlock = block.findAncestorOpInBlock(*user))
          end = std::max(end, position[inBlock]);
    return end;
  };

  DenseMap<Value, int64_t> lastUse;
  auto extend = [&](Value value) {
    Value root = getAliasRoot(value);
    for (Operation *user : value.getUsers())
      if (Operation *inBlock = block.findAncestorOpInBlock(*user))
        lastUse[root] = std::max(lastUse[root], getReadEnd(inBlock));
  };
  for (Operation *op : ops)
    for (Value result : op->getResults())
      extend(result);

  for (Operation *at : ops) {
    Operation &op = *at;
    auto hostOp = dyn_cast<HostOpInterface>(op);
    if (!hostOp || !hostOp.needsMemory())
      continue;
    int64_t now = position[&op];
    for (Value result : op.getResults()) {
      if (buffers.count(result) || getAliasRoot(result) != result)
        continue;
      // A sum over micro-batches is reduced over ranks in its own buffer.
      if (Value sum = hostOp.getReusable(); sum && !isa<AllReduceStartOp>(op)) {
        Value root = getAliasRoot(sum);
        if (root.getDefiningOp<AccumulatedOp>() && lastUse.lookup(root) == now &&
            bytes(root.getType()) == bytes(result.getType())) {
          buffers[result] = getBuffer(root);
          continue;
        }
      }
      int64_t end = std::max(lastUse.lookup(result), now);
      auto columns = getResultColumns(result);
      if (!columns) {
        assignSlot(result, bytes(result.getType()), hostOp.getReusable(), now,
                   isa<AllReduceStartOp>(op) ? getReadEnd(&op) : now, end);
        continue;
      }
      // All results of a group share one slot, which is live until the last use of any of them.
      SmallVector<MatmulOp> merged = getMerged(columns->matmul);
      if (columns->matmul != merged.front()) {
        slotOf[result] = slotOf.lookup(merged.front().getResult());
        continue;
      }
      for (MatmulOp other : merged)
        end = std::max(end, lastUse.lookup(other.getResult()));
      SymExpr each(getElementBytes(getElementTypeOrSelf(result)));
      assignSlot(result, each * columns->rows * columns->stride, {}, now, now, end);
    }
  }
}

// Assigns a slot to `value`: the slot of `reusable` if its last use is at `released`, else a free
// slot, preferably of the value's size, else a new slot. Called in program order.
void BufferPlanner::assignSlot(Value value, const SymExpr &size, Value reusable, int64_t now,
                               int64_t released, int64_t end) {
  SymExpr known = substituteNumbers(size, grid());
  unsigned best = slots.size();
  // The result may reuse the slot of an operand whose last use is this op.
  if (reusable) {
    auto slot = slotOf.find(getAliasRoot(reusable));
    if (slot != slotOf.end() && slots[slot->second].freeAt == released)
      best = slot->second;
  }
  auto isOfSize = [&](const SymExpr &other) { return substituteNumbers(other, grid()) == known; };
  for (unsigned i = 0; i < slots.size() && best == slots.size(); ++i)
    if (slots[i].freeAt < now && llvm::any_of(slots[i].sizes, isOfSize))
      best = i;
  for (unsigned i = 0; i < slots.size() && best == slots.size(); ++i)
    if (slots[i].freeAt < now)
      best = i;
  if (best == slots.size())
    slots.emplace_back();
  // A slot keeps the symbolic sizes of all its values, because their order depends on the values of
  // symbols.
  if (!llvm::is_contained(slots[best].sizes, size))
    slots[best].sizes.push_back(size);
  slots[best].freeAt = end;
  slotOf[value] = best;
}

SymExpr BufferPlanner::assignOffsets(MutableArrayRef<Slot> slots) {
  SymExpr total(0);
  for (Slot &slot : slots) {
    SymExpr size = slot.sizes.front();
    for (const SymExpr &other : ArrayRef(slot.sizes).drop_front())
      size = SymExpr::max(size, other);
    slot.begin = total;
    total = total + roundUpToSlot(size);
  }
  return total;
}
