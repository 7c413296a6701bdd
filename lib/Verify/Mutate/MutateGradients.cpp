//===- MutateGradients.cpp - Faults in backward programs ------------------===//

#include "Mutate.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

//===----------------------------------------------------------------------===//
// Derivation: backward programs of models
//===----------------------------------------------------------------------===//

/// Returns whether `op` computes f32 numbers in a backward function, or in @main after the loss.
static bool isBackward(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  if (!function || !getElementTypeOrSelf(op->getResult(0).getType()).isF32())
    return false;
  if (function.getName() != "main")
    return function.getName().ends_with("_backward");
  Operation *loss = function.front().getTerminator()->getOperand(0).getDefiningOp();
  return loss && loss->isBeforeInBlock(op);
}

template <typename OpT> static OpT pickBackward(Mutator &m) {
  return m.pick<OpT>([](OpT op) {
    return isBackward(op) && op.getLhs().getType() == op.getType() &&
           op.getRhs().getType() == op.getType();
  });
}

// A cotangent lacks the term of one use of its value.
static bool loseTerm(Mutator &m) {
  auto op = pickBackward<AddOp>(m);
  if (op)
    op.getResult().replaceAllUsesWith(m.draw(2) ? op.getLhs() : op.getRhs());
  return bool(op);
}

// A derivative lacks a factor. Constants are not candidates, because they may be 1.
static bool loseFactor(Mutator &m) {
  auto op = m.pick<MulOp>([](MulOp mul) {
    return isBackward(mul) && mul.getLhs().getType() == mul.getType() &&
           !mul.getRhs().getDefiningOp<ConstantOp>();
  });
  if (op)
    op.getResult().replaceAllUsesWith(op.getLhs());
  return bool(op);
}

// A term has the other sign.
static bool flipSign(Mutator &m) {
  auto op = m.pick<SubOp>([](SubOp sub) { return isBackward(sub); });
  if (!op)
    return false;
  op.getResult().replaceAllUsesWith(
      AddOp::create(m.builder, op.getLoc(), op.getType(), op.getLhs(), op.getRhs()));
  return true;
}

// Two operands of a layer's backward function are exchanged.
static bool swapSaved(Mutator &m) {
  auto differ = [](func::CallOp call) -> std::pair<unsigned, unsigned> {
    for (unsigned i = 0; i < call.getNumOperands(); ++i)
      for (unsigned j = i + 1; j < call.getNumOperands(); ++j)
        if (call.getOperand(i) != call.getOperand(j) &&
            call.getOperand(i).getType() == call.getOperand(j).getType())
          return {i, j};
    return {};
  };
  auto call = m.pick<func::CallOp>(
      [&](func::CallOp c) { return c.getCallee().ends_with("_backward") && differ(c).second > 0; });
  if (!call)
    return false;
  auto [i, j] = differ(call);
  Value first = call.getOperand(i);
  call.setOperand(i, call.getOperand(j));
  call.setOperand(j, first);
  return true;
}

//===----------------------------------------------------------------------===//
// Scale of the loss
//===----------------------------------------------------------------------===//

/// Returns the division of a gradient by the scale of the loss.
static DivOp pickUnscale(Mutator &m) {
  return m.pick<DivOp>([](DivOp op) {
    auto scale = dyn_cast<BlockArgument>(op.getRhs());
    auto main = scale ? dyn_cast<func::FuncOp>(scale.getOwner()->getParentOp()) : func::FuncOp();
    return main && main.getArgAttr(scale.getArgNumber(), kNameAttr) ==
                       StringAttr::get(op.getContext(), "loss_scale");
  });
}

// A gradient is divided by the scale of the loss twice.
static bool unscaleTwice(Mutator &m) {
  DivOp op = pickUnscale(m);
  if (op)
    op.getLhsMutable().assign(
        DivOp::create(m.builder, op.getLoc(), op.getType(), op.getLhs(), op.getRhs()));
  return bool(op);
}

// A gradient is not divided by the scale of the loss.
static bool loseUnscale(Mutator &m) {
  DivOp op = pickUnscale(m);
  if (op)
    op.getResult().replaceAllUsesWith(op.getLhs());
  return bool(op);
}

//===----------------------------------------------------------------------===//
// Gradients of attention
//===----------------------------------------------------------------------===//

// The cotangents of scores are not scaled, and the probabilities are those of unscaled scores.
static bool loseScale(Mutator &m) {
  auto op = m.pick<AttentionGradOp>(
      [](AttentionGradOp grad) { return grad.getScale().convertToDouble() != 1; });
  if (op)
    op.setScale(APFloat(1.0));
  return bool(op);
}

// The gradient's probabilities have another mask than those of the forward pass.
static bool moveMask(Mutator &m) {
  auto op = m.pick<AttentionGradOp>([](AttentionGradOp grad) { return grad.getCausal(); });
  if (!op)
    return false;
  if (m.draw(2))
    op.setCausal(false);
  else
    op.setCausalOffset(op.getCausalOffset() + (m.draw(2) ? 1 : -1));
  return true;
}

// The gradient of one operand is that of another.
static bool otherGradOperand(Mutator &m) {
  auto op = m.pick<AttentionGradOp>([](AttentionGradOp grad) {
    return grad.getOperand(grad.getOf()).getType() ==
           grad.getOperand((grad.getOf() + 1) % 3).getType();
  });
  if (op)
    op.setOf((op.getOf() + 1) % 3);
  return bool(op);
}

ArrayRef<Mutation> mutate::getGradientMutations() {
  static constexpr Mutation mutations[] = {
      {"gradient-lose-term", "a cotangent lacks the term of one use of its value", loseTerm},
      {"gradient-lose-factor", "a derivative lacks a factor", loseFactor},
      {"gradient-flip-sign", "a term of a gradient has the other sign", flipSign},
      {"gradient-swap-saved", "a backward function gets two operands in the other order",
       swapSaved},
      {"gradient-attention-scale", "a gradient of attention is not scaled", loseScale},
      {"gradient-attention-mask", "a gradient of attention has another mask", moveMask},
      {"gradient-attention-operand", "a gradient of attention is that of another operand",
       otherGradOperand},
      {"gradient-attention-tensors", "a gradient of attention exchanges keys and values",
       swapKeysValues<AttentionGradOp>},
      {"gradient-unscale-twice", "a gradient is divided by the scale of the loss twice",
       unscaleTwice},
      {"gradient-lose-unscale", "a gradient is not divided by the scale of the loss", loseUnscale},
  };
  return mutations;
}
