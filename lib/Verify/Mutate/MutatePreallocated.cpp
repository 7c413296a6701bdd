//===- MutatePreallocated.cpp - Faults in steps with preallocated caches --===//

#include "Mutate.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

/// Returns the input with the numbers of new tokens (`counts`), or the one with the lengths.
static Value getInput(Mutator &m, bool counts) {
  auto step = PreallocatedStep::lookup(m.module);
  auto main = m.module.lookupSymbol<func::FuncOp>("main");
  for (unsigned i = 0; step && main && i < main.getNumArguments(); ++i)
    if (auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr);
        name && name == (counts ? step->counts : step->lengths))
      return main.getArgument(i);
  return {};
}

static Value makeNumber(Mutator &m, Value like, const SymExpr &e) {
  auto scalar = RankedTensorType::get({}, getElementTypeOrSelf(like));
  return SizeOp::create(m.builder, like.getLoc(), scalar, e);
}
static Value add(Mutator &m, Value lengths, const SymExpr &e) {
  Value number = makeNumber(m, lengths, e);
  return AddOp::create(m.builder, lengths.getLoc(), lengths.getType(), lengths, number);
}
/// Returns the values of the sequences `from` positions later in the batch.
static Value shift(Mutator &m, Value v, int64_t dim, int64_t from) {
  SymExpr batch = getSizes(v)[dim];
  return RollOp::create(m.builder, v.getLoc(), v.getType(), v, uint64_t(dim), SymExpr(from), batch);
}

/// Picks an `OpT` of a step on preallocated caches, and returns its operand of this index.
template <typename OpT> static OpOperand *pickUse(Mutator &m, unsigned operand) {
  if (!PreallocatedStep::lookup(m.module))
    return nullptr;
  OpT op = m.pick<OpT>([&](OpT) { return true; });
  return op ? &op->getOpOperand(operand) : nullptr;
}

/// Returns a plausible error of a length or position.
static SymExpr wrongNumber(Mutator &m) {
  auto step = PreallocatedStep::lookup(m.module);
  SymExpr tokens = SymExpr::symbol(step->tokens);
  const SymExpr wrong[] = {SymExpr(1), SymExpr(2), tokens, SymExpr(1) - tokens};
  return wrong[m.draw(std::size(wrong))];
}

static bool appendOff(Mutator &m) {
  OpOperand *use = pickUse<AppendOp>(m, 2);
  if (!use)
    return false;
  use->set(add(m, use->get(), wrongNumber(m)));
  return true;
}
static bool appendToNeighbor(Mutator &m) {
  OpOperand *use = pickUse<AppendOp>(m, m.draw(2) ? 2 : 0);
  if (!use)
    return false;
  use->set(shift(m, use->get(), 0, m.draw(3) ? 1 : -1));
  return true;
}
static bool appendNeighbors(Mutator &m) {
  OpOperand *use = pickUse<AppendOp>(m, 1);
  if (!use)
    return false;
  use->set(shift(m, use->get(), 0, 1));
  return true;
}
static bool appendForgotten(Mutator &m) {
  auto op = m.pickAny<AppendOp>();
  if (!op)
    return false;
  op.replaceAllUsesWith(op.getCache());
  op.erase();
  return true;
}
/// Returns whether two appends are different, but of the same function and to caches of the same
/// type.
static bool isOther(AppendOp op, AppendOp other) {
  return other != op && other.getCache().getType() == op.getCache().getType() &&
         other->getParentOp() == op->getParentOp() && isa<BlockArgument>(other.getCache());
}
static bool appendOther(Mutator &m) {
  auto all = m.find<AppendOp>([](AppendOp) { return true; });
  auto op = m.pick<AppendOp>(
      [&](AppendOp op) { return llvm::any_of(all, [&](AppendOp o) { return isOther(op, o); }); });
  if (!op)
    return false;
  for (AppendOp other : all)
    if (isOther(op, other)) {
      op.getCacheMutable().assign(other.getCache());
      return true;
    }
  return false;
}

static AttentionOp pickAttention(Mutator &m) {
  return m.pick<AttentionOp>([](AttentionOp op) { return bool(op.getLengths()); });
}
static bool lengthsOff(Mutator &m) {
  AttentionOp op = pickAttention(m);
  if (!op)
    return false;
  op.getLengthsMutable().assign(add(m, op.getLengths(), wrongNumber(m)));
  return true;
}
static bool lengthsStale(Mutator &m) {
  AttentionOp op = pickAttention(m);
  if (!op)
    return false;
  if (m.draw(2)) {
    op.getLengthsMutable().clear();
    return true;
  }
  op.getLengthsMutable().assign(add(m, op.getLengths(), SymExpr(-1)));
  return true;
}
static bool lengthsOfNeighbor(Mutator &m) {
  AttentionOp op = pickAttention(m);
  if (!op)
    return false;
  op.getLengthsMutable().assign(shift(m, op.getLengths(), 0, m.draw(2) ? 1 : -1));
  return true;
}
static bool lengthsAreCounts(Mutator &m) {
  Value lengths = getInput(m, false), counts = getInput(m, true);
  if (!lengths || !counts)
    return false;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : lengths.getUses())
    uses.push_back(&use);
  if (uses.empty())
    return false;
  uses[m.seed % uses.size()]->set(counts);
  return true;
}
static bool offsetOff(Mutator &m) {
  AttentionOp op = pickAttention(m);
  if (!op)
    return false;
  SymExpr wrong = op.getCausalOffset() + (m.draw(2) ? SymExpr(1) : SymExpr(-1));
  op.setCausalOffsetAttr(SymExprAttr::get(m.context, wrong));
  return true;
}
static bool windowOff(Mutator &m) {
  auto op = m.pick<AttentionOp>(
      [](AttentionOp op) { return op.getLengths() && op.getWindow().has_value(); });
  if (!op)
    return false;
  // In runs at small sizes the window is 2, so window 1 is different.
  switch (m.draw(3)) {
  case 0:
    op.removeWindowAttr();
    return true;
  case 1:
    op.setWindowAttr(SymExprAttr::get(m.context, SymExpr(1)));
    return true;
  default:
    op.setCausalOffsetAttr(SymExprAttr::get(m.context, op.getCausalOffset() + SymExpr(1)));
    return true;
  }
}
static bool readBefore(Mutator &m) {
  // Reads keys or values from before the step.
  auto op = m.pick<AppendOp>([](AppendOp op) {
    return llvm::any_of(op->getUsers(), [](Operation *user) { return isa<TransposeOp>(user); });
  });
  if (!op)
    return false;
  for (OpOperand &use : llvm::make_early_inc_range(op.getResult().getUses()))
    if (isa<TransposeOp>(use.getOwner()))
      use.set(op.getCache());
  return true;
}

/// Returns whether the op computes positions from lengths.
static bool isPosition(Operation *op) {
  if (!isa<ReshapeOp, CastOp, AddOp>(op) || !isa<IntegerType>(elementTypeOf(op->getResult(0))))
    return false;
  auto argument = dyn_cast<BlockArgument>(op->getOperand(0));
  return argument && getSizes(argument).size() == 1;
}
template <typename F> static bool changePositions(Mutator &m, F change) {
  if (!PreallocatedStep::lookup(m.module))
    return false;
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (op->getNumOperands() > 0 && op->getNumResults() == 1 &&
        isa<RankedTensorType>(op->getResult(0).getType()) &&
        op->getOperand(0) == getInput(m, false) && isPosition(op))
      found.push_back(op);
  });
  if (found.empty())
    return false;
  Operation *op = found[m.seed % found.size()];
  m.location = op;
  m.builder.setInsertionPoint(op);
  op->setOperand(0, change(op->getOperand(0)));
  return true;
}
static bool positionsOff(Mutator &m) {
  return changePositions(m, [&](Value v) { return add(m, v, wrongNumber(m)); });
}
static bool positionsStale(Mutator &m) {
  return changePositions(
      m, [&](Value v) -> Value { return SubOp::create(m.builder, v.getLoc(), v.getType(), v, v); });
}
static bool positionsOfNeighbor(Mutator &m) {
  return changePositions(m, [&](Value v) { return shift(m, v, 0, 1); });
}
static bool positionsUnlimited(Mutator &m) {
  auto op = m.pick<MinOp>([](MinOp op) { return isa<IntegerType>(elementTypeOf(op.getResult())); });
  if (!op || !PreallocatedStep::lookup(m.module))
    return false;
  op.getResult().replaceAllUsesWith(op.getLhs());
  return true;
}

static bool countsIgnored(Mutator &m) {
  Value counts = getInput(m, true);
  auto step = PreallocatedStep::lookup(m.module);
  if (!counts || counts.use_empty())
    return false;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : counts.getUses())
    uses.push_back(&use);
  OpOperand *use = uses[m.seed % uses.size()];
  m.location = use->getOwner();
  m.builder.setInsertionPoint(use->getOwner());
  Value all = ExpandOp::create(m.builder, counts.getLoc(), counts.getType(),
                               makeNumber(m, counts, SymExpr::symbol(step->tokens)));
  switch (m.draw(3)) {
  case 0:
    use->set(all);
    break;
  case 1:
    use->set(add(m, counts, SymExpr(-1)));
    break;
  default:
    use->set(shift(m, counts, 0, 1));
  }
  return true;
}

static bool windowKeepsLess(Mutator &m) {
  auto step = PreallocatedStep::lookup(m.module);
  if (!step || !step->windowed || step->windowed->window < 2)
    return false;
  m.location = m.module;
  --step->windowed->window;
  step->attachTo(m.module);
  return true;
}
/// Replaces one use of the lengths by the lengths of sliding-window caches, or the reverse.
static bool windowLengthsSwapped(Mutator &m) {
  auto step = PreallocatedStep::lookup(m.module);
  Value lengths = getInput(m, false);
  if (!lengths || !step->windowed)
    return false;
  auto main = cast<func::FuncOp>(lengths.getParentBlock()->getParentOp());
  Value windowLengths;
  for (BlockArgument argument : main.getArguments())
    if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
        name && name == step->windowed->lengths)
      windowLengths = argument;
  SmallVector<OpOperand *> uses;
  for (Value value : {lengths, windowLengths})
    for (OpOperand &use : value.getUses())
      uses.push_back(&use);
  OpOperand *use = uses[m.seed % uses.size()];
  m.location = use->getOwner();
  use->set(use->get() == windowLengths ? lengths : windowLengths);
  return true;
}

ArrayRef<Mutation> mutate::getPreallocatedMutations() {
  static const Mutation mutations[] = {
      {"preallocated-append-off", "new tokens are written one or more positions off", appendOff},
      {"preallocated-append-neighbour",
       "new tokens are written at the length, or to the slot, of another sequence",
       appendToNeighbor},
      {"preallocated-append-swapped", "another sequence's new tokens are written", appendNeighbors},
      {"preallocated-append-forgotten", "a cache is not written", appendForgotten},
      {"preallocated-append-other", "another cache is used", appendOther},
      {"preallocated-lengths-off", "queries are one or more positions off", lengthsOff},
      {"preallocated-lengths-stale", "queries are at the positions of an earlier step",
       lengthsStale},
      {"preallocated-lengths-neighbour", "queries are at another sequence's positions",
       lengthsOfNeighbor},
      {"preallocated-lengths-counts", "numbers of new tokens are used as numbers of past ones",
       lengthsAreCounts},
      {"preallocated-offset-off", "the causal offset is off by one", offsetOff},
      {"preallocated-window-off", "a window is shorter, shifted, or removed", windowOff},
      {"preallocated-read-before", "keys or values are read before new ones are written",
       readBefore},
      {"preallocated-positions-off", "positions are off by one or more", positionsOff},
      {"preallocated-positions-stale", "positions do not advance with the past", positionsStale},
      {"preallocated-positions-neighbour", "positions are those of another sequence",
       positionsOfNeighbor},
      {"preallocated-positions-unlimited", "padding tokens exceed the table of positions",
       positionsUnlimited},
      {"preallocated-window-keeps-less", "caches keep fewer tokens than the window shows",
       windowKeepsLess},
      {"preallocated-window-lengths",
       "lengths of sliding-window caches are used for other caches, or the reverse",
       windowLengthsSwapped},
      {"preallocated-counts-ignored", "the last token is used instead of the last real one",
       countsIgnored},
  };
  return mutations;
}
