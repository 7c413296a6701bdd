//===- MutateConstants.cpp - Faults with little effect in small runs ------===//
//
// Constants that are nearly right, and index arithmetic that is wrong from some size on, in
// kernels. Also equal faults in a tensor function and in the kernel that computes it, as if an
// earlier pass had made them: only a comparison with the staged program finds these.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"

#include "tpc/Dialect/RankSizes.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static bool isOrdinary(FloatAttr number) {
  return number && number.getValue().isFinite() && !number.getValue().isZero();
}

static FloatAttr scaleNumber(FloatAttr number, double by) {
  return FloatAttr::get(number.getType(), number.getValueAsDouble() * by);
}

static bool isFloatConstant(arith::ConstantOp op) {
  return isOrdinary(dyn_cast<FloatAttr>(op.getValue()));
}

static bool nearConstant(Mutator &m) {
  auto op = m.pick<arith::ConstantOp>(isFloatConstant);
  if (!op)
    return false;
  auto number = cast<FloatAttr>(op.getValue());
  // 16-bit types cannot represent 1.0001 times a number.
  double by = number.getType().getIntOrFloatBitWidth() < 32 ? 1.02 : m.draw(2) ? 1.0001 : 1.00001;
  op.setValueAttr(scaleNumber(number, by));
  return true;
}

static bool exchangeConstants(Mutator &m) {
  auto others = [](arith::ConstantOp op) {
    SmallVector<arith::ConstantOp> found;
    op->getParentOfType<kernel::FuncOp>().walk([&](arith::ConstantOp other) {
      if (other.getType() == op.getType() && other.getValue() != op.getValue() &&
          isa<FloatType>(other.getType()))
        found.push_back(other);
    });
    return found;
  };
  auto op = m.pick<arith::ConstantOp>([&](arith::ConstantOp constant) {
    return isa<FloatType>(constant.getType()) && constant->getParentOfType<kernel::FuncOp>() &&
           !others(constant).empty();
  });
  if (!op)
    return false;
  auto found = others(op);
  arith::ConstantOp other = m.drawFrom(found);
  TypedAttr value = op.getValue();
  op.setValueAttr(other.getValue());
  other.setValueAttr(value);
  return true;
}

/// Removes an op with a constant operand: the other operand replaces its result.
static bool deleteConstant(Mutator &m) {
  auto uses = [](Operation *op) {
    return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(op) &&
           (op->getOperand(0).getDefiningOp<arith::ConstantOp>() ||
            op->getOperand(1).getDefiningOp<arith::ConstantOp>());
  };
  Operation *op = m.pick<Operation *>(uses);
  if (!op)
    return false;
  bool isFirst = bool(op->getOperand(0).getDefiningOp<arith::ConstantOp>());
  op->getResult(0).replaceAllUsesWith(op->getOperand(isFirst ? 1 : 0));
  op->erase();
  m.location = nullptr;
  return true;
}

//===----------------------------------------------------------------------===//
// Widths
//===----------------------------------------------------------------------===//

/// Applies `change` to an index of a load.
static bool changeIndex(Mutator &m, function_ref<Value(OpBuilder &, Location, Value)> change) {
  auto varies = [](Value index) { return !index.getDefiningOp<arith::ConstantOp>(); };
  auto load = m.pick<memref::LoadOp>(
      [&](memref::LoadOp op) { return llvm::any_of(op.getIndices(), varies); });
  if (!load)
    return false;
  SmallVector<OpOperand *> indices;
  for (OpOperand &index : load.getIndicesMutable())
    if (varies(index.get()))
      indices.push_back(&index);
  OpOperand *index = m.drawFrom(indices);
  index->set(change(m.builder, load.getLoc(), index->get()));
  return true;
}

static bool narrowIndex(Mutator &m) {
  static constexpr unsigned widths[] = {8, 16, 32};
  Type narrow = m.builder.getIntegerType(widths[m.draw(3)]);
  return changeIndex(m, [&](OpBuilder &b, Location loc, Value index) -> Value {
    Value part = arith::IndexCastOp::create(b, loc, narrow, index);
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), part);
  });
}

static bool floatIndex(Mutator &m) {
  return changeIndex(m, [&](OpBuilder &b, Location loc, Value index) -> Value {
    Value whole = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
    Value number = arith::SIToFPOp::create(b, loc, b.getF32Type(), whole);
    Value back = arith::FPToSIOp::create(b, loc, b.getI64Type(), number);
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), back);
  });
}

/// Wraps or clamps an index at a number, possibly a size of the program.
static bool wrapIndex(Mutator &m) {
  SmallVector<int64_t> limits = {100, 128, 1000, 4096};
  m.module.walk([&](kernel::ElementsOp loop) {
    for (const SymExpr &size : loop.getExprs())
      if (auto n = substituteNumbers(size, m.grid).asConstant(); n && *n > 4)
        limits.push_back(*n);
  });
  int64_t limit = m.drawFrom(limits);
  return changeIndex(m, [&](OpBuilder &b, Location loc, Value index) -> Value {
    Value n = arith::ConstantIndexOp::create(b, loc, limit);
    if (m.seed % 2)
      return arith::RemUIOp::create(b, loc, index, n);
    Value last = arith::ConstantIndexOp::create(b, loc, limit - 1);
    return arith::MinSIOp::create(b, loc, index, last);
  });
}

/// Truncates a loaded length, position or id.
static bool narrowLoaded(Mutator &m) {
  static constexpr unsigned widths[] = {8, 16, 32};
  auto load = m.pick<memref::LoadOp>(
      [](memref::LoadOp op) { return op.getResult().getType().isInteger(64); });
  if (!load)
    return false;
  m.builder.setInsertionPointAfter(load);
  Type narrow = m.builder.getIntegerType(widths[m.draw(3)]);
  Value part = arith::TruncIOp::create(m.builder, load.getLoc(), narrow, load.getResult());
  Value back = arith::ExtSIOp::create(m.builder, load.getLoc(), load.getResult().getType(), part);
  load.getResult().replaceAllUsesExcept(back, part.getDefiningOp());
  return true;
}

static bool narrowFloat(Mutator &m) {
  auto load =
      m.pick<memref::LoadOp>([](memref::LoadOp op) { return op.getResult().getType().isF32(); });
  if (!load)
    return false;
  m.builder.setInsertionPointAfter(load);
  Value part =
      arith::TruncFOp::create(m.builder, load.getLoc(), m.builder.getBF16Type(), load.getResult());
  Value back = arith::ExtFOp::create(m.builder, load.getLoc(), m.builder.getF32Type(), part);
  load.getResult().replaceAllUsesExcept(back, part.getDefiningOp());
  return true;
}

/// Does not subtract the maximum, so that a softmax overflows for large scores.
static bool dropMaximum(Mutator &m) {
  auto exp = m.pick<math::ExpOp>(
      [](math::ExpOp op) { return bool(op.getOperand().getDefiningOp<arith::SubFOp>()); });
  if (!exp)
    return false;
  auto function = exp->getParentOfType<kernel::FuncOp>();
  function.walk([](math::ExpOp op) {
    if (auto difference = op.getOperand().getDefiningOp<arith::SubFOp>())
      op.getOperandMutable().set(difference.getLhs());
  });
  return true;
}

/// Returns whether a size exceeds a limit on the first or the last rank of an axis. The model's
/// symbols are unbounded.
static bool mayExceed(Mutator &m, const SymExpr &size, int64_t limit) {
  SymExpr value = substituteNumbers(size, m.grid);
  std::set<std::string> symbols;
  value.collectSymbols(symbols);
  std::map<std::string, int64_t> last;
  for (const std::string &symbol : symbols) {
    StringRef axis = symbol;
    if (!axis.consume_front("rank."))
      return true;
    last[symbol] = m.sizeOf(axis) - 1;
  }
  std::map<std::string, int64_t> first = last;
  for (auto &coordinate : first)
    coordinate.second = 0;
  return llvm::any_of(ArrayRef{first, last}, [&](const auto &coordinates) {
    std::optional<int64_t> number = value.evaluate(coordinates);
    return !number || *number > limit;
  });
}

static bool capSize(Mutator &m) {
  int64_t limit = m.draw(2) ? 100 : 999;
  auto size =
      m.pick<kernel::SizeOp>([&](kernel::SizeOp op) { return mayExceed(m, op.getExpr(), limit); });
  if (!size)
    return false;
  auto other = kernel::SizeOp::create(m.builder, size.getLoc(),
                                      SymExpr::min(size.getExpr(), SymExpr(limit)));
  size.getResult().replaceAllUsesWith(other.getResult());
  size.erase();
  m.location = other;
  return true;
}

/// Increments a static offset (_768.at384) or a static size.
static bool nextOffsetOrSize(Mutator &m) {
  auto name = [](kernel::SizeOp size) -> std::optional<NamedSize> {
    std::set<std::string> symbols;
    size.getExpr().collectSymbols(symbols);
    std::optional<NamedSize> named =
        symbols.size() == 1 ? getNamedSize(*symbols.begin()) : std::nullopt;
    bool fits = named && (named->kind == NamedSize::Offset ||
                          (named->kind == NamedSize::Size && named->axes.empty()));
    return fits ? named : std::nullopt;
  };
  auto size = m.pick<kernel::SizeOp>([&](kernel::SizeOp op) { return bool(name(op)); });
  if (!size)
    return false;
  NamedSize named = *name(size);
  SymExpr next = named.kind == NamedSize::Offset ? getNamedOffset(named.offset + 1, named.size)
                                                 : toNamedSize(SymExpr(named.size + 1));
  auto other = kernel::SizeOp::create(m.builder, size.getLoc(), next);
  size.getResult().replaceAllUsesWith(other.getResult());
  size.erase();
  m.location = other;
  return true;
}

//===----------------------------------------------------------------------===//
// On tensors and in kernels
//===----------------------------------------------------------------------===//

/// Returns the kernel of an op's tensor function.
static kernel::FuncOp getKernel(Mutator &m, Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  ModuleOp library = kernel::getKernels(m.module);
  return function && library && function->hasAttr(kKernelAttr)
             ? library.lookupSymbol<kernel::FuncOp>(function.getSymName())
             : kernel::FuncOp();
}

static void replaceInKernel(kernel::FuncOp function, Attribute from, TypedAttr to) {
  function.walk([&](arith::ConstantOp op) {
    if (op.getValue() == from)
      op.setValueAttr(to);
  });
}

/// Multiplies a constant by 1.0001 (a 16-bit constant: by 1.02), on tensors and in the kernel.
static bool nearConstantOfBoth(Mutator &m) {
  auto get = [](ConstantOp op) -> FloatAttr {
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    auto type = dense ? dyn_cast<FloatType>(dense.getElementType()) : FloatType();
    return type && dense.isSplat() ? FloatAttr::get(type, dense.getSplatValue<APFloat>())
                                   : FloatAttr();
  };
  auto op = m.pick<ConstantOp>(
      [&](ConstantOp constant) { return getKernel(m, constant) && isOrdinary(get(constant)); });
  if (!op)
    return false;
  FloatAttr from = get(op);
  FloatAttr to = scaleNumber(from, from.getType().getIntOrFloatBitWidth() < 32 ? 1.02 : 1.0001);
  op.setValueAttr(DenseElementsAttr::get(
      cast<ShapedType>(cast<DenseElementsAttr>(op.getValue()).getType()), to.getValue()));
  replaceInKernel(getKernel(m, op), from, to);
  return true;
}

/// Enlarges a norm's epsilon by 1%.
template <typename OpT> static bool nearEpsilonOf(Mutator &m) {
  auto op = m.pick<OpT>([&](OpT norm) { return bool(getKernel(m, norm)); });
  if (!op)
    return false;
  Type element = getElementTypeOrSelf(op.getX());
  Type type = element.getIntOrFloatBitWidth() < 32 ? Type(m.builder.getF32Type()) : element;
  double epsilon = op.getEpsilon().convertToDouble();
  op.setEpsilonAttr(m.builder.getF64FloatAttr(1.01 * epsilon));
  replaceInKernel(getKernel(m, op), FloatAttr::get(type, epsilon),
                  FloatAttr::get(type, 1.01 * epsilon));
  return true;
}

static bool nearEpsilonOfBoth(Mutator &m) {
  return nearEpsilonOf<RmsNormOp>(m) || nearEpsilonOf<LayerNormOp>(m);
}

/// Gives all attention ops another scale or soft-cap.
static bool otherAttention(Mutator &m) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isa<AttentionOp, buffer::AttentionOp>(op))
      found.push_back(op);
  });
  if (found.empty())
    return false;
  m.location = found.front();
  bool changed = false;
  for (Operation *op : found) {
    auto scale = op->getAttrOfType<FloatAttr>("scale");
    auto cap = op->getAttrOfType<FloatAttr>("softcap");
    unsigned what = m.draw(3);
    if (what == 1 && isOrdinary(cap)) {
      op->setAttr("softcap", scaleNumber(cap, m.seed % 2 ? 20 : 1.0001));
      changed = true;
    } else if (scale) {
      op->setAttr("scale", scaleNumber(scale, m.seed % 2 ? 1.0001 : 1.00001));
      changed = true;
    }
  }
  return changed;
}

static bool otherWindow(Mutator &m) {
  AttentionPairs all = findAttentions(m, [](AttentionOp op) { return op.getWindow().has_value(); });
  changeWindows(m, all, [](int64_t window) { return window + 1; });
  return !all.empty();
}

/// Lets views of weights begin one element later.
static bool shiftView(Mutator &m) {
  auto op = m.pick<ParameterOp>([](ParameterOp p) { return bool(p.getViewAttr()); });
  if (!op)
    return false;
  auto shift = [&](ViewAttr view) {
    return ViewAttr::get(m.context, view.getOffset() + 1, view.getDims());
  };
  ViewAttr from = op.getViewAttr(), to = shift(from);
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](ViewAttr view) -> std::optional<Attribute> {
    return view == from ? std::optional<Attribute>(to) : std::nullopt;
  });
  replacer.recursivelyReplaceElementsIn(m.module, /*replaceAttrs=*/true);
  return true;
}

/// Replaces GELU's formula on tensors and in the epilogues of matmuls.
static bool otherActivation(Mutator &m) {
  bool changed = false;
  SmallVector<GeluOp> found;
  m.module.walk([&](GeluOp op) { found.push_back(op); });
  for (GeluOp op : found) {
    if (getKernel(m, op))
      continue;
    op.setApproximate(op.getApproximate() == GeluApproximation::Tanh ? GeluApproximation::None
                                                                     : GeluApproximation::Tanh);
    m.location = op;
    changed = true;
  }
  m.module.walk([&](buffer::ProductOp product) {
    auto parts = product.getMatmuls();
    for (buffer::ProductOp::Matmul &part : parts)
      part.epilogue = part.epilogue == buffer::Epilogue::GeluTanh  ? buffer::Epilogue::GeluErf
                      : part.epilogue == buffer::Epilogue::GeluErf ? buffer::Epilogue::GeluTanh
                                                                   : part.epilogue;
    product.setMatmuls(parts);
  });
  return changed;
}

/// Lets causal attention see one more key.
static bool otherOffset(Mutator &m) {
  AttentionPairs all = findAttentions(m, [](AttentionOp op) { return op.getCausal(); });
  moveEdge(m, all, 1);
  return !all.empty();
}

ArrayRef<Mutation> mutate::getConstantMutations() {
  static constexpr Mutation mutations[] = {
      {"kernel-near-constant", "a constant is 1.0001 or 1.00001 times what it was", nearConstant},
      {"kernel-constants-exchanged", "two constants of a kernel are exchanged", exchangeConstants},
      {"kernel-constant-deleted", "an operation with a constant is removed", deleteConstant},
      {"kernel-index-narrow", "an index is converted to 8, 16 or 32 bits", narrowIndex},
      {"kernel-index-float", "an index is converted to f32", floatIndex},
      {"kernel-index-wraps", "an index wraps or is clamped at some number", wrapIndex},
      {"kernel-loaded-narrow", "a loaded integer is converted to 8, 16 or 32 bits", narrowLoaded},
      {"kernel-size-capped", "a size is clamped at some number", capSize},
      {"kernel-next-place", "a static index or size is incremented", nextOffsetOrSize},
      {"kernel-float-narrow", "a number is converted to bf16", narrowFloat},
      {"kernel-float-huge", "a softmax does not subtract the maximum", dropMaximum},
      {"lowered-near-constant", "a constant is 1.0001 times what it was, on tensors too",
       nearConstantOfBoth},
      {"lowered-near-epsilon", "a norm has another epsilon, on tensors too", nearEpsilonOfBoth},
      {"lowered-other-attention", "attention has another scale or cap, on tensors too",
       otherAttention},
      {"lowered-other-window", "attention windows are one key longer, on tensors too", otherWindow},
      {"lowered-other-offset", "causal attention sees one more key, on tensors too", otherOffset},
      {"lowered-shifted-view", "a view of a weight begins one element later, on tensors too",
       shiftView},
      {"lowered-other-activation", "GELU uses the other approximation, on tensors too",
       otherActivation},
  };
  return mutations;
}
