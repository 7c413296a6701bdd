//===- MutateKernels.cpp - Faults in kernels ------------------------------===//
//
// Faults in indices, fusion and arithmetic. They change the text of `--emit=kernels`, so that all
// later steps compile the fault.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"

#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

static Value addOne(Mutator &m, Location loc, Value index) {
  Value one = arith::ConstantIndexOp::create(m.builder, loc, 1);
  return arith::AddIOp::create(m.builder, loc, index, one);
}

/// Increments one of the indices, in loads or in stores.
template <typename OpT> static bool shiftIndex(Mutator &m) {
  auto op = m.pick<OpT>([](OpT access) { return !access.getIndices().empty(); });
  if (!op)
    return false;
  OpOperand &index = op.getIndicesMutable()[m.draw(op.getIndices().size())];
  index.set(addOne(m, op.getLoc(), index.get()));
  return true;
}

// Replaces a loop index by the constant 0, so that every iteration reads the first element.
static bool dropIndex(Mutator &m) {
  auto op = m.pick<memref::LoadOp>([](memref::LoadOp load) {
    return llvm::any_of(load.getIndices(), [](Value v) { return isa<BlockArgument>(v); });
  });
  if (!op)
    return false;
  SmallVector<OpOperand *> varying;
  for (OpOperand &index : op.getIndicesMutable())
    if (isa<BlockArgument>(index.get()))
      varying.push_back(&index);
  m.drawFrom(varying)->set(arith::ConstantIndexOp::create(m.builder, op.getLoc(), 0));
  return true;
}

static bool exchangeIndices(Mutator &m) {
  auto op = m.pick<memref::LoadOp>([](memref::LoadOp load) {
    auto indices = load.getIndices();
    return indices.size() > 1 && indices[0] != indices[1];
  });
  if (!op)
    return false;
  unsigned i = m.draw(op.getIndices().size() - 1);
  Value first = op.getIndices()[i], second = op.getIndices()[i + 1];
  op.getIndicesMutable()[i].set(second);
  op.getIndicesMutable()[i + 1].set(first);
  return true;
}

// Replaces a product, quotient or remainder of indices by its first operand.
static bool dropFactor(Mutator &m) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isa<arith::MulIOp, arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp>(op) &&
        op->getResult(0).getType().isIndex())
      found.push_back(op);
  });
  Operation *op = m.choose(ArrayRef<Operation *>(found));
  if (!op)
    return false;
  op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  return true;
}

/// Omits the last index of a loop.
template <typename OpT> static bool shorten(Mutator &m) {
  auto op = m.pick<OpT>([](OpT loop) { return !loop.getExprs().empty(); });
  if (!op)
    return false;
  SmallVector<::tpc::SymExpr> sizes = op.getExprs();
  ::tpc::SymExpr &size = m.drawFrom(sizes);
  size = size - 1;
  // Creates the attribute of sizes through a temporary op.
  auto loop = kernel::ElementsOp::create(m.builder, op.getLoc(), sizes);
  op.setSizesAttr(loop.getSizesAttr());
  loop.erase();
  return true;
}

// Makes a size of a loop or of an index differ by one.
static bool otherSize(Mutator &m) {
  auto op = m.pickAny<kernel::SizeOp>();
  if (!op)
    return false;
  ::tpc::SymExpr expr = op.getExpr();
  auto other = kernel::SizeOp::create(m.builder, op.getLoc(), m.draw(2) ? expr + 1 : expr - 1);
  op.getResult().replaceAllUsesWith(other.getResult());
  op.erase();
  m.location = other;
  return true;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static bool isArithmetic(Operation *op) {
  return op->getNumResults() == 1 &&
         isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

static bool exchangeOperands(Mutator &m) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isArithmetic(op) && op->getNumOperands() >= 2 && !op->hasTrait<OpTrait::IsCommutative>()) {
      unsigned last = op->getNumOperands() - 1;
      if (op->getOperand(last) != op->getOperand(last - 1) &&
          op->getOperand(last).getType() == op->getOperand(last - 1).getType())
        found.push_back(op);
    }
  });
  Operation *op = m.choose(ArrayRef<Operation *>(found));
  if (!op)
    return false;
  unsigned last = op->getNumOperands() - 1;
  Value x = op->getOperand(last), y = op->getOperand(last - 1);
  op->setOperand(last, y);
  op->setOperand(last - 1, x);
  return true;
}

// Replaces an operand by another value of its type.
static bool otherOperand(Mutator &m) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isArithmetic(op) && op->getNumOperands() > 0)
      found.push_back(op);
  });
  // The next op for which such a value exists.
  for (size_t tries = 0; tries < found.size(); ++tries) {
    Operation *op = found[(m.seed + tries) % found.size()];
    unsigned operand = m.draw(op->getNumOperands());
    DominanceInfo dominance;
    SmallVector<Value> others;
    auto function = op->getParentOfType<kernel::FuncOp>();
    if (!function)
      continue;
    function->walk([&](Operation *other) {
      for (Value value : other->getResults())
        if (value != op->getOperand(operand) &&
            value.getType() == op->getOperand(operand).getType() &&
            dominance.properlyDominates(value, op))
          others.push_back(value);
    });
    if (others.empty())
      continue;
    m.location = op;
    op->setOperand(operand, m.drawFrom(others));
    return true;
  }
  return false;
}

static bool otherMemory(Mutator &m) {
  auto others = [](memref::LoadOp load) {
    SmallVector<Value> list;
    auto function = load->getParentOfType<kernel::FuncOp>();
    for (Value memory : function.getOperandMemory())
      if (memory != load.getMemRef() && memory.getType() == load.getMemRef().getType())
        list.push_back(memory);
    return list;
  };
  auto op = m.pick<memref::LoadOp>([&](memref::LoadOp load) { return !others(load).empty(); });
  if (!op)
    return false;
  SmallVector<Value> list = others(op);
  op.getMemrefMutable().set(m.drawFrom(list));
  return true;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static bool otherFold(Mutator &m) {
  using K = kernel::FoldKind;
  auto op = m.pick<kernel::FoldOp>(
      [](kernel::FoldOp fold) { return isa<FloatType>(fold.getResult().getType()); });
  if (!op)
    return false;
  K kind = op.getKind() == K::Sum ? K::Max : K::Sum;
  op.setKind(kind);
  op.setInitAttr(kernel::FoldOp::getInit(kind, op.getResult().getType()));
  op.setIdentityAttr(kernel::FoldOp::getIdentity(kind, op.getResult().getType()));
  return true;
}

// Replaces the initial value or the identity of a fold. Unused lanes start with the identity, so
// the result changes.
static bool wrongIdentity(Mutator &m) {
  auto op = m.pick<kernel::FoldOp>(
      [](kernel::FoldOp fold) { return isa<FloatType>(fold.getResult().getType()); });
  if (!op)
    return false;
  bool sum = op.getKind() == kernel::FoldKind::Sum;
  auto wrong = m.builder.getFloatAttr(op.getResult().getType(), sum ? 1.0 : 1e30);
  if (m.draw(2))
    op.setInitAttr(wrong);
  else
    op.setIdentityAttr(wrong);
  return true;
}

static bool otherOperation(Mutator &m) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(op))
      found.push_back(op);
  });
  Operation *op = m.choose(ArrayRef<Operation *>(found));
  if (!op)
    return false;
  Value x = op->getOperand(0), y = op->getOperand(1), other;
  if (isa<arith::AddFOp>(op))
    other = arith::SubFOp::create(m.builder, op->getLoc(), x, y);
  else if (isa<arith::MulFOp>(op))
    other = arith::DivFOp::create(m.builder, op->getLoc(), x, y);
  else if (isa<arith::SubFOp>(op))
    other = arith::AddFOp::create(m.builder, op->getLoc(), x, y);
  else
    other = arith::MulFOp::create(m.builder, op->getLoc(), x, y);
  op->getResult(0).replaceAllUsesWith(other);
  op->erase();
  m.location = other.getDefiningOp();
  return true;
}

static bool otherConstant(Mutator &m) {
  auto op = m.pick<arith::ConstantOp>([](arith::ConstantOp constant) {
    auto value = dyn_cast<FloatAttr>(constant.getValue());
    return value && value.getValue().isFinite();
  });
  if (!op)
    return false;
  auto value = cast<FloatAttr>(op.getValue());
  double number = value.getValueAsDouble();
  op.setValueAttr(FloatAttr::get(value.getType(), 2 * number + 1));
  return true;
}

// Omits the rounding to 16 bits, as a fast-math flag would allow.
static bool foldCast(Mutator &m) {
  auto op = m.pick<arith::TruncFOp>([](arith::TruncFOp trunc) {
    return llvm::any_of(trunc->getUsers(),
                        [](Operation *user) { return isa<arith::ExtFOp>(user); });
  });
  if (!op)
    return false;
  for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
    if (isa<arith::ExtFOp>(user)) {
      user->getResult(0).replaceAllUsesWith(op.getIn());
      user->erase();
    }
  return true;
}

static bool fastMath(Mutator &m) {
  auto op = m.pickAny<arith::SubFOp>();
  if (!op)
    return false;
  op.setFastmath(arith::FastMathFlags::nnan | arith::FastMathFlags::contract);
  return true;
}

static bool otherComparison(Mutator &m) {
  auto op = m.pickAny<arith::CmpIOp>();
  if (!op)
    return false;
  using P = arith::CmpIPredicate;
  switch (op.getPredicate()) {
  case P::slt:
    op.setPredicate(P::sle);
    break;
  case P::sle:
    op.setPredicate(P::slt);
    break;
  case P::ult:
    op.setPredicate(P::ule);
    break;
  default:
    op.setPredicate(arith::invertPredicate(op.getPredicate()));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

template <typename OpT> static bool drop(Mutator &m) {
  auto op = m.pickAny<OpT>();
  if (!op)
    return false;
  op.erase();
  m.location = nullptr;
  return true;
}

// Removes the condition of a store.
static bool storeAlways(Mutator &m) {
  auto op = m.pick<scf::IfOp>([](scf::IfOp branch) { return branch->getNumResults() == 0; });
  if (!op)
    return false;
  Block *body = op.thenBlock();
  m.location = &body->front();
  op->getBlock()->getOperations().splice(op->getIterator(), body->getOperations(), body->begin(),
                                         std::prev(body->end()));
  op.erase();
  return true;
}

ArrayRef<Mutation> mutate::getKernelMutations() {
  static constexpr Mutation mutations[] = {
      {"kernel-load-index", "a load reads the next element", shiftIndex<memref::LoadOp>},
      {"kernel-store-index", "a store writes the next element", shiftIndex<memref::StoreOp>},
      {"kernel-store-always", "a conditional store is unconditional", storeAlways},
      {"kernel-index-dropped", "a load uses index 0 instead of one that varies", dropIndex},
      {"kernel-indices-exchanged", "two indices of a load are exchanged", exchangeIndices},
      {"kernel-factor-dropped", "a product, quotient or remainder of indices is removed",
       dropFactor},
      {"kernel-other-size", "a size is off by one", otherSize},
      {"kernel-elements-short", "a loop over elements omits the last one",
       shorten<kernel::ElementsOp>},
      {"kernel-fold-short", "a fold omits the last term", shorten<kernel::FoldOp>},
      {"kernel-operands-exchanged", "the operands of a non-commutative op are exchanged",
       exchangeOperands},
      {"kernel-other-operand", "an operand is another value of its type", otherOperand},
      {"kernel-other-memory", "a load reads another argument", otherMemory},
      {"kernel-other-fold", "a sum is replaced by a maximum, or the reverse", otherFold},
      {"kernel-wrong-identity", "a fold's identity or initial value is wrong", wrongIdentity},
      {"kernel-other-operation", "a sum is replaced by a difference, a product by a quotient",
       otherOperation},
      {"kernel-other-constant", "a constant has another value", otherConstant},
      {"kernel-cast-folded", "a 16-bit number is not rounded", foldCast},
      {"kernel-fast-math", "a difference has a fast-math flag", fastMath},
      {"kernel-other-comparison", "a comparison is off by one, or inverted", otherComparison},
      {"kernel-check-dropped", "a missing index is not reported", drop<kernel::CheckOp>},
      {"kernel-barrier-dropped", "a barrier within a row is removed", drop<kernel::BarrierOp>},
  };
  return mutations;
}
