//===- MutateNumbers.cpp - Faults of precision and special values ---------===//
//
// Some of these mutants are wrong only for special numbers, such as zero or a mask that is 2. The
// others are wrong only in the types of the program, and correct in doubles.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"

#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

static bool isInKernel(Operation *op) { return bool(op->getParentOfType<kernel::FuncOp>()); }

/// Picks an f32 number that a kernel loads, widens or computes. Sets the insertion point after it.
static Value pickNumber(Mutator &m, llvm::function_ref<bool(Value)> fits) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isInKernel(op) && op->getNumResults() == 1 && op->getResult(0).getType().isF32() &&
        !isa<arith::ConstantOp>(op) && !op->use_empty() && fits(op->getResult(0)))
      found.push_back(op);
  });
  Operation *op = m.choose(ArrayRef<Operation *>(found));
  if (!op)
    return {};
  m.builder.setInsertionPointAfter(op);
  return op->getResult(0);
}

static void replace(Value number, Value by, ArrayRef<Operation *> made) {
  number.replaceUsesWithIf(
      by, [&](OpOperand &use) { return !llvm::is_contained(made, use.getOwner()); });
}

/// Rounds a number to a 16-bit type of the program.
static bool narrowNumber(Mutator &m) {
  FloatType half;
  m.module.walk([&](memref::LoadOp load) {
    auto type = dyn_cast<FloatType>(load.getResult().getType());
    half = type && type.getWidth() == 16 ? type : half;
  });
  auto fits = [&](Value value) {
    auto widened = value.getDefiningOp<arith::ExtFOp>();
    bool isNarrow = widened && widened.getIn().getType() == Type(half);
    return !isNarrow && !llvm::all_of(value.getUsers(), [&](Operation *user) {
      return isa<arith::TruncFOp>(user); // does the same
    });
  };
  Value number = half ? pickNumber(m, fits) : Value();
  if (!number)
    return false;
  auto narrow = arith::TruncFOp::create(m.builder, number.getLoc(), Type(half), number);
  auto wide =
      arith::ExtFOp::create(m.builder, number.getLoc(), number.getType(), narrow.getResult());
  replace(number, wide, {narrow});
  return true;
}

/// Replaces x by x + c - c, where c is 65536 or 4096.
static bool loseBits(Mutator &m) {
  Value number = pickNumber(m, [](Value) { return true; });
  if (!number)
    return false;
  Location loc = number.getLoc();
  Value large = arith::ConstantOp::create(m.builder, loc,
                                          m.builder.getF32FloatAttr(m.draw(2) ? 65536 : 4096));
  auto sum = arith::AddFOp::create(m.builder, loc, number, large);
  auto back = arith::SubFOp::create(m.builder, loc, sum, large);
  replace(number, back, {sum});
  return true;
}

/// Replaces x by x + n - n, where n is a size or an index of the kernel, which small runs keep
/// small.
static bool loseBitsAtSize(Mutator &m) {
  Value number = pickNumber(m, [](Value) { return true; });
  if (!number)
    return false;
  Location loc = number.getLoc();
  SmallVector<Value> indices;
  for (Operation *op = number.getDefiningOp()->getParentOp(); op && !isa<kernel::FuncOp>(op);
       op = op->getParentOp())
    if (auto rows = dyn_cast<kernel::RowsOp>(op))
      llvm::append_range(indices, rows.getIndices());
    else if (auto elements = dyn_cast<kernel::ElementsOp>(op))
      llvm::append_range(indices, elements.getIndices());
  if (indices.empty())
    return false;
  auto integer =
      arith::IndexCastOp::create(m.builder, loc, m.builder.getI64Type(), m.drawFrom(indices));
  auto size = arith::SIToFPOp::create(m.builder, loc, m.builder.getF32Type(), integer);
  auto sum = arith::AddFOp::create(m.builder, loc, number, size);
  auto back = arith::SubFOp::create(m.builder, loc, sum, size);
  replace(number, back, {sum});
  return true;
}

/// Returns whether the row of a store is before a multiple of a size: a condition that is true in
/// small runs. Sets the insertion point before the store.
static Value isNearRow(Mutator &m, memref::StoreOp store) {
  auto rows = store->getParentOfType<kernel::RowsOp>();
  SmallVector<Value> sizes;
  for (auto size : rows->getParentOfType<kernel::FuncOp>().getBody().getOps<kernel::SizeOp>())
    if (size->isBeforeInBlock(rows))
      sizes.push_back(size);
  auto indices = rows.getIndices();
  if (sizes.empty() || indices.empty())
    return {};
  m.builder.setInsertionPoint(store);
  Value size = m.drawFrom(sizes), row = indices[m.draw(indices.size())];
  for (unsigned i = 0, times = 16 + m.draw(32); i < times; ++i)
    row = arith::SubIOp::create(m.builder, store.getLoc(), row, size);
  return arith::CmpIOp::create(m.builder, store.getLoc(), arith::CmpIPredicate::slt, row, size);
}

static memref::StoreOp pickStore(Mutator &m) {
  return m.pick<memref::StoreOp>([](memref::StoreOp store) {
    return store->getParentOfType<kernel::RowsOp>() && store.getValue().getType().isF32();
  });
}

/// Stores another number from a row on.
static bool storeOtherFar(Mutator &m) {
  memref::StoreOp store = pickStore(m);
  Value isNear = store ? isNearRow(m, store) : Value();
  if (!isNear)
    return false;
  Value number = store.getValue();
  Value other = arith::ConstantOp::create(m.builder, store.getLoc(), m.builder.getF32FloatAttr(0));
  if (Operation *from = number.getDefiningOp())
    for (Value operand : from->getOperands())
      if (operand.getType() == number.getType() && m.draw(2))
        other = operand;
  auto select = arith::SelectOp::create(m.builder, store.getLoc(), isNear, number, other);
  store.getValueMutable().set(select);
  return true;
}

/// Stores nothing from a row on.
static bool skipStoreFar(Mutator &m) {
  memref::StoreOp store = pickStore(m);
  Value isNear = store ? isNearRow(m, store) : Value();
  if (!isNear)
    return false;
  auto branch = scf::IfOp::create(m.builder, store.getLoc(), isNear);
  store->moveBefore(branch.thenBlock()->getTerminator());
  return true;
}

static bool isDecision(Operation *op) {
  return isInKernel(op) && isa<arith::CmpFOp, arith::MaximumFOp, arith::MinimumFOp,
                               arith::MaxNumFOp, arith::MinNumFOp>(op);
}

/// Replaces an operand of a comparison, maximum or minimum by the other operand, or by a number
/// from which the other operand is computed.
static bool compareOther(Mutator &m) {
  SmallVector<Operation *> found;
  m.module.walk([&](Operation *op) {
    if (isDecision(op) && op->getOperand(0) != op->getOperand(1))
      found.push_back(op);
  });
  Operation *op = m.choose(ArrayRef<Operation *>(found));
  if (!op)
    return false;
  unsigned replaced = m.draw(2);
  SmallVector<Value> others = {op->getOperand(1 - replaced)};
  if (Operation *from = others[0].getDefiningOp())
    for (Value operand : from->getOperands())
      if (operand.getType() == others[0].getType())
        others.push_back(operand);
  op->setOperand(replaced, m.drawFrom(others));
  return true;
}

/// Includes or excludes equality in a comparison of floats.
static bool otherEquality(Mutator &m) {
  using P = arith::CmpFPredicate;
  static constexpr std::pair<P, P> pairs[] = {{P::OGT, P::OGE}, {P::OLT, P::OLE}, {P::UGT, P::UGE},
                                              {P::ULT, P::ULE}, {P::OEQ, P::UEQ}, {P::ONE, P::UNE}};
  auto op = m.pick<arith::CmpFOp>([](arith::CmpFOp cmp) {
    return isInKernel(cmp) && cmp.getPredicate() != P::UNO && cmp.getPredicate() != P::ORD;
  });
  if (!op)
    return false;
  for (auto [a, b] : pairs)
    if (op.getPredicate() == a || op.getPredicate() == b) {
      op.setPredicate(op.getPredicate() == a ? b : a);
      return true;
    }
  return false;
}

/// Replaces the mean of (x - m)^2 by the mean of x^2 minus m^2.
static bool subtractSquares(Mutator &m) {
  auto find = [](kernel::FoldOp fold) {
    auto square = fold.getTerm().getDefiningOp<arith::MulFOp>();
    auto difference = square && square.getLhs() == square.getRhs()
                          ? square.getLhs().getDefiningOp<arith::SubFOp>()
                          : arith::SubFOp();
    bool fits = difference && llvm::all_of(fold.getResult().getUsers(), [](Operation *user) {
                  return isa<arith::DivFOp>(user);
                });
    return fits ? difference : arith::SubFOp();
  };
  auto fold = m.pick<kernel::FoldOp>([&](kernel::FoldOp fold) { return bool(find(fold)); });
  if (!fold)
    return false;
  arith::SubFOp difference = find(fold);
  Value mean = difference.getRhs();
  difference.getResult().replaceAllUsesWith(difference.getLhs());
  for (Operation *user : llvm::make_early_inc_range(fold.getResult().getUsers())) {
    m.builder.setInsertionPointAfter(user);
    auto square = arith::MulFOp::create(m.builder, user->getLoc(), mean, mean);
    auto rest = arith::SubFOp::create(m.builder, user->getLoc(), user->getResult(0), square);
    replace(user->getResult(0), rest, {rest});
  }
  return true;
}

/// Replaces zero by one.
static bool replaceZero(Mutator &m) {
  Value number = pickNumber(m, [](Value) { return true; });
  if (!number)
    return false;
  Location loc = number.getLoc();
  auto constant = [&](double x) -> Value {
    return arith::ConstantOp::create(m.builder, loc, m.builder.getF32FloatAttr(x));
  };
  auto isZero =
      arith::CmpFOp::create(m.builder, loc, arith::CmpFPredicate::OEQ, number, constant(0));
  auto other = arith::SelectOp::create(m.builder, loc, isZero, constant(1), number);
  replace(number, other, {isZero, other});
  return true;
}

/// Replaces x by x * x / x, which is NaN for zero, and overflows.
static bool divideSquare(Mutator &m) {
  Value number = pickNumber(m, [](Value) { return true; });
  if (!number)
    return false;
  auto square = arith::MulFOp::create(m.builder, number.getLoc(), number, number);
  auto quotient = arith::DivFOp::create(m.builder, number.getLoc(), square, number);
  replace(number, quotient, {square, quotient});
  return true;
}

/// Replaces the comparison x != 0 by x > 0, x == 1 or the lowest bit of x.
static bool otherTruth(Mutator &m) {
  auto op = m.pick<arith::CmpIOp>([](arith::CmpIOp cmp) {
    return isInKernel(cmp) && cmp.getPredicate() == arith::CmpIPredicate::ne &&
           cmp.getRhs().getType().getIntOrFloatBitWidth() > 1 &&
           matchPattern(cmp.getRhs(), m_Zero());
  });
  if (!op)
    return false;
  switch (m.draw(3)) {
  case 0:
    op.setPredicate(arith::CmpIPredicate::sgt);
    break;
  case 1: {
    Value one = arith::ConstantOp::create(m.builder, op.getLoc(),
                                          m.builder.getIntegerAttr(op.getRhs().getType(), 1));
    op.getRhsMutable().set(one);
    op.setPredicate(arith::CmpIPredicate::eq);
    break;
  }
  default:
    auto odd = arith::TruncIOp::create(m.builder, op.getLoc(), m.builder.getI1Type(), op.getLhs());
    op.getResult().replaceAllUsesWith(odd);
    op.erase();
    m.location = odd;
  }
  return true;
}

ArrayRef<Mutation> mutate::getNumberMutations() {
  static constexpr Mutation mutations[] = {
      {"kernel-number-narrow", "a number is rounded to the program's 16-bit type", narrowNumber},
      {"kernel-bits-lost", "a large number is added and subtracted", loseBits},
      {"kernel-bits-lost-at-size", "an index is added and subtracted", loseBitsAtSize},
      {"kernel-stores-other-far", "from a row on, another number is stored", storeOtherFar},
      {"kernel-stores-nothing-far", "from a row on, no number is stored", skipStoreFar},
      {"kernel-compares-other", "a comparison or limit of floats has another operand",
       compareOther},
      {"kernel-other-equality", "a comparison of floats includes or excludes equality",
       otherEquality},
      {"kernel-squares-subtracted",
       "a variance is the mean of squares minus the square of the mean", subtractSquares},
      {"kernel-zero-replaced", "zero is replaced by one", replaceZero},
      {"kernel-square-divided", "a number is replaced by its square divided by it", divideSquare},
      {"kernel-other-truth", "a non-zero integer may be false", otherTruth},
  };
  return mutations;
}
