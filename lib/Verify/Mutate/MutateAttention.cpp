//===- MutateAttention.cpp - Faults in attention --------------------------===//

#include "Mutate.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

static AttentionOp pickAttention(Mutator &m, llvm::function_ref<bool(AttentionOp)> fits) {
  return m.pick<AttentionOp>(fits);
}

static bool maskedRow(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp) { return true; });
  if (!op)
    return false;
  op.setMaskedRow(op.getMaskedRow() == MaskedRow::Zero ? MaskedRow::Uniform : MaskedRow::Zero);
  return true;
}

static bool unmaskPadding(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return a.getKeyMask() || a.getMask(); });
  if (!op)
    return false;
  if (op.getKeyMask())
    op.getKeyMaskMutable().clear();
  else
    op.getMaskMutable().clear();
  return true;
}

static bool scaleTwice(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return a.getScale().convertToDouble() != 1; });
  if (!op)
    return false;
  double scale = op.getScale().convertToDouble();
  op.setScale(APFloat(scale * scale));
  return true;
}

static bool seeFuture(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return a.getCausal(); });
  if (!op)
    return false;
  op.setCausalOffset(op.getCausalOffset() + 1);
  return true;
}

static bool shiftWindow(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return a.getWindow().has_value(); });
  if (!op)
    return false;
  op.setWindow(*op.getWindow() + (m.draw(2) ? 1 : -1));
  return true;
}

static bool dropWindow(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return a.getWindow().has_value(); });
  if (!op)
    return false;
  op.removeWindowAttr();
  return true;
}

// Squares the slopes. They are powers of one number, so a square is the slope of another head.
static bool otherSlopes(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return bool(a.getSlopes()); });
  if (!op)
    return false;
  Value slopes = op.getSlopes();
  op.getSlopesMutable().assign(
      MulOp::create(m.builder, op.getLoc(), slopes.getType(), slopes, slopes));
  return true;
}

static bool dropSlopes(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return bool(a.getSlopes()); });
  if (!op)
    return false;
  op.getSlopesMutable().clear();
  return true;
}

static bool otherSinks(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return bool(a.getSinks()); });
  if (!op)
    return false;
  Value sinks = op.getSinks();
  op.getSinksMutable().assign(AddOp::create(m.builder, op.getLoc(), sinks.getType(), sinks, sinks));
  return true;
}

static bool dropSinks(Mutator &m) {
  auto op = pickAttention(m, [](AttentionOp a) { return bool(a.getSinks()); });
  if (!op)
    return false;
  op.getSinksMutable().clear();
  return true;
}

ArrayRef<Mutation> mutate::getAttentionMutations() {
  static constexpr Mutation mutations[] = {
      {"masked-row", "a row without visible keys is uniform instead of zero, or the reverse",
       maskedRow},
      {"unmask-padding", "padding is visible", unmaskPadding},
      {"scale-twice", "attention's scale is applied twice", scaleTwice},
      {"see-future", "each query sees the next key", seeFuture},
      {"shift-window", "a window is longer or shorter by one key", shiftWindow},
      {"drop-window", "a window is removed", dropWindow},
      {"other-slopes", "heads have the slopes of others", otherSlopes},
      {"drop-slopes", "slopes are removed", dropSlopes},
      {"other-sinks", "heads have twice their sinks", otherSinks},
      {"drop-sinks", "sinks are removed", dropSinks},
      {"swap-keys-values", "keys and values are exchanged", swapKeysValues<AttentionOp>},
  };
  return mutations;
}
