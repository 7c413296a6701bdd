//===- MutateLimits.cpp - Faults in windows, caps and edges of masks ------===//
//
// In programs on tensors, or in programs on buffers, where calls and their tensor functions get the
// same fault: otherwise tpc-verify-buffers would reject the program before it is run.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"

#include "tpc/Dialect/RankSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

/// Returns the tensor function or stage that a function on buffers computes.
static Operation *getSource(Mutator &m, buffer::FuncOp function) {
  Operation *source = m.module.lookupSymbol(function.getOf());
  if (!source || !function.getStage())
    return source;
  Operation *stage = nullptr;
  source->walk([&](StageOp op) {
    if (static_cast<int64_t>(op.getIndex()) == static_cast<int64_t>(*function.getStage()))
      stage = op;
  });
  return stage;
}

template <typename OpT> static SmallVector<OpT> collect(Operation *root) {
  SmallVector<OpT> found;
  root->walk([&](OpT op) { found.push_back(op); });
  return found;
}

AttentionPairs mutate::findAttentions(Mutator &m, llvm::function_ref<bool(AttentionOp)> fits) {
  AttentionPairs all;
  all.ops = m.find<AttentionOp>(fits);
  // A function on buffers calls attention in the order of its tensor function.
  for (auto function : m.find<buffer::FuncOp>([](buffer::FuncOp) { return true; })) {
    Operation *source = getSource(m, function);
    if (!source)
      continue;
    auto ops = collect<AttentionOp>(source);
    auto calls = collect<buffer::AttentionOp>(function);
    if (ops.size() == calls.size())
      for (auto [op, call] : llvm::zip(ops, calls))
        if (llvm::is_contained(all.ops, op))
          all.calls.push_back(call);
  }
  if (!all.empty())
    m.location = all.ops.front();
  return all;
}

/// Returns one matching attention op for odd seeds, all of them for even ones.
static AttentionPairs pickAttentions(Mutator &m, llvm::function_ref<bool(AttentionOp)> fits) {
  AttentionOp picked = m.pick<AttentionOp>(fits);
  if (!picked)
    return {};
  bool alone = m.seed % 2;
  AttentionPairs all = findAttentions(m, [&](AttentionOp op) {
    return fits(op) && (!alone || getSourceName(op.getLoc()) == getSourceName(picked.getLoc()));
  });
  m.location = picked;
  return all;
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

static int64_t windowOf(AttentionOp op) {
  return op.getWindow() ? op.getWindow()->asConstant().value_or(0) : 0;
}

void mutate::changeWindows(Mutator &m, const AttentionPairs &all,
                           llvm::function_ref<int64_t(int64_t)> change) {
  for (buffer::AttentionOp call : all.calls) {
    if (!call.getAfterAttr())
      continue;
    std::set<std::string> names;
    call.getAfterAttr().getExpr().collectSymbols(names);
    for (const std::string &name : names) {
      auto named = getNamedSize(name);
      if (!named || named->kind != NamedSize::Window)
        continue;
      int64_t size = change(named->size);
      if (size == 0)
        call.removeAfterAttr();
      else
        call.setAfterAttr(SymExprAttr::get(
            m.context,
            call.getAfterAttr().getExpr().substitute({{name, getNamedWindow(SymExpr(size))}})));
      break;
    }
  }
  for (AttentionOp op : all.ops) {
    int64_t size = change(windowOf(op));
    if (size == 0)
      op.removeWindowAttr();
    else
      op.setWindowAttr(SymExprAttr::get(m.context, SymExpr(size)));
  }
}

static bool changeWindows(Mutator &m, llvm::function_ref<int64_t(int64_t)> change) {
  AttentionPairs all = pickAttentions(m, [](AttentionOp op) { return windowOf(op) > 0; });
  changeWindows(m, all, change);
  return !all.empty();
}

static bool lengthenWindow(Mutator &m) {
  return changeWindows(m, [](int64_t n) { return n + 1; });
}
static bool shortenWindow(Mutator &m) {
  return changeWindows(m, [](int64_t n) { return n > 1 ? n - 1 : n + 1; });
}
static bool doubleWindow(Mutator &m) {
  return changeWindows(m, [](int64_t n) { return 2 * n; });
}
static bool dropWindows(Mutator &m) {
  return changeWindows(m, [](int64_t) { return 0; });
}

/// Uses a size of a tensor as the window.
static bool sizeForWindow(Mutator &m) {
  std::set<int64_t> sizes;
  m.module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (isa<RankedTensorType>(type))
        for (const SymExpr &size : getSizes(type))
          if (int64_t n = size.asConstant().value_or(0); n > 1)
            sizes.insert(n);
  });
  if (sizes.size() < 2)
    return false;
  return changeWindows(m, [&](int64_t n) {
    std::set<int64_t> others = sizes;
    others.erase(n);
    return *std::next(others.begin(), m.draw(others.size()));
  });
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

void mutate::moveEdge(Mutator &m, const AttentionPairs &all, int64_t by) {
  auto add = [&](SymExprAttr expr) {
    return expr ? SymExprAttr::get(m.context, expr.getExpr() + SymExpr(by)) : expr;
  };
  for (AttentionOp op : all.ops)
    op.setCausalOffsetAttr(SymExprAttr::get(m.context, op.getCausalOffset() + SymExpr(by)));
  for (buffer::AttentionOp call : all.calls) {
    call.setCausalAttr(add(call.getCausalAttr()));
    call.setAfterAttr(add(call.getAfterAttr()));
    call.setSlopesAtAttr(add(call.getSlopesAtAttr()));
  }
}

/// Lets queries see one key more, or one less, at the causal edge.
static bool moveEdge(Mutator &m, int64_t by) {
  AttentionPairs all = pickAttentions(m, [](AttentionOp op) { return op.getCausal(); });
  moveEdge(m, all, by);
  return !all.empty();
}
static bool seeLater(Mutator &m) { return moveEdge(m, 1); }
static bool seeEarlier(Mutator &m) { return moveEdge(m, -1); }

/// Returns whether the program is on buffers. Then only kernels are compiled, not their tensor
/// functions.
static bool isOnBuffers(Mutator &m) {
  return !m.find<buffer::FuncOp>([](buffer::FuncOp) { return true; }).empty();
}

static bool exchangeBranches(Mutator &m) {
  bool onBuffers = isOnBuffers(m);
  auto op = m.pick<Operation *>([&](Operation *op) {
    return (onBuffers ? isa<arith::SelectOp>(op) : isa<SelectOp>(op)) &&
           op->getOperand(1).getType() == op->getOperand(2).getType() &&
           op->getOperand(1) != op->getOperand(2);
  });
  if (!op)
    return false;
  Value first = op->getOperand(1);
  op->setOperand(1, op->getOperand(2));
  op->setOperand(2, first);
  return true;
}

/// Exchanges a strict comparison with the non-strict one.
static bool moveComparison(Mutator &m) {
  auto op = m.pick<CmpOp>([](CmpOp op) {
    return isa<IntegerType>(getElementTypeOrSelf(op->getOperand(0))) &&
           op.getPredicate() != Predicate::EQ && op.getPredicate() != Predicate::NE;
  });
  if (!op)
    return false;
  auto other = [&] {
    switch (op.getPredicate()) {
    case Predicate::LT:
      return Predicate::LE;
    case Predicate::LE:
      return Predicate::LT;
    case Predicate::GT:
      return Predicate::GE;
    default:
      return Predicate::GT;
    }
  };
  op.setPredicate(other());
  return true;
}

//===----------------------------------------------------------------------===//
// Caps
//===----------------------------------------------------------------------===//

static bool changeCaps(Mutator &m, llvm::function_ref<double(double)> change) {
  AttentionPairs all = pickAttentions(m, [](AttentionOp op) { return !op.getSoftcap().isZero(); });
  for (AttentionOp op : all.ops)
    op.setSoftcapAttr(m.builder.getF64FloatAttr(change(op.getSoftcap().convertToDouble())));
  for (buffer::AttentionOp call : all.calls)
    call.setSoftcapAttr(m.builder.getF64FloatAttr(change(call.getSoftcap().convertToDouble())));
  return !all.empty();
}
static bool enlargeCap(Mutator &m) {
  return changeCaps(m, [](double cap) { return 20 * cap; });
}
static bool moveCap(Mutator &m) {
  return changeCaps(m, [](double cap) { return 1.04 * cap; });
}
static bool dropCap(Mutator &m) {
  return changeCaps(m, [](double) { return 0; });
}

/// Enlarges a constant of a clip, or of the ops around a tanh.
static bool moveConstant(Mutator &m) {
  bool onBuffers = isOnBuffers(m);
  auto isTanh = [](Operation *op) { return isa_and_nonnull<TanhOp, math::TanhOp>(op); };
  auto isLimited = [&](Operation *op) {
    return isa<MaxOp, MinOp, arith::MaximumFOp, arith::MinimumFOp>(op) ||
           llvm::any_of(op->getOperands(), [&](Value x) { return isTanh(x.getDefiningOp()); }) ||
           llvm::any_of(op->getUsers(), isTanh);
  };
  auto getNumber = [&](Operation *op) -> std::optional<APFloat> {
    if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && onBuffers)
      if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
        return number.getValue();
    if (auto constant = dyn_cast<ConstantOp>(op); constant && !onBuffers)
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
          splat && isa<FloatType>(splat.getElementType()))
        return splat.getSplatValue<APFloat>();
    return std::nullopt;
  };
  auto op = m.pick<Operation *>([&](Operation *op) {
    std::optional<APFloat> number = getNumber(op);
    return number && !number->isZero() && llvm::any_of(op->getUsers(), isLimited);
  });
  if (!op)
    return false;
  APFloat value = *getNumber(op), factor(1.25);
  bool loses;
  factor.convert(value.getSemantics(), APFloat::rmNearestTiesToEven, &loses);
  if (auto constant = dyn_cast<ConstantOp>(op))
    constant.setValueAttr(
        DenseElementsAttr::get(cast<ShapedType>(constant.getValue().getType()), value * factor));
  else
    cast<arith::ConstantOp>(op).setValueAttr(
        FloatAttr::get(op->getResult(0).getType(), value * factor));
  return true;
}

ArrayRef<Mutation> mutate::getLimitMutations() {
  static constexpr Mutation mutations[] = {
      {"limit-window-longer", "windows are one key longer", lengthenWindow},
      {"limit-window-shorter", "windows are one key shorter", shortenWindow},
      {"limit-window-double", "windows are twice as long", doubleWindow},
      {"limit-window-dropped", "windows are removed", dropWindows},
      {"limit-window-size", "windows are as long as a dimension of a tensor", sizeForWindow},
      {"limit-causal-later", "queries see one later token", seeLater},
      {"limit-causal-earlier", "queries do not see their own token", seeEarlier},
      {"limit-branches-exchanged", "the branches of a select are exchanged", exchangeBranches},
      {"limit-comparison-edge",
       "a strict integer comparison is replaced by the non-strict one, or the reverse",
       moveComparison},
      {"limit-cap-larger", "scores have a cap that is 20 times as large", enlargeCap},
      {"limit-cap-moved", "scores have a cap that is 4% larger", moveCap},
      {"limit-cap-dropped", "scores have no cap", dropCap},
      {"limit-constant", "the constant of a cap or clip is 25% larger", moveConstant},
  };
  return mutations;
}
