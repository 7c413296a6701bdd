//===- MutateArithmetic.cpp - Faults that only large sizes show -----------===//
//
// Indices and integers that wrap or are clamped at a large number, computed from sizes and ones so
// that no constant is suspicious. Also false promises to LLVM, lookups that report a wrong index,
// and frames that are too large above some size.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

/// Returns 2^(2^steps), computed from ones.
static Value makePower(OpBuilder &b, Location loc, Type type, unsigned steps) {
  Value one = type.isIndex() ? arith::ConstantIndexOp::create(b, loc, 1).getResult()
                             : arith::ConstantIntOp::create(b, loc, type, 1).getResult();
  Value power = arith::AddIOp::create(b, loc, one, one);
  for (unsigned i = 0; i < steps; ++i)
    power = arith::MulIOp::create(b, loc, power, power);
  return power;
}

/// Returns an expression that equals `value` below a limit and is smaller above it.
static Value limitValue(Mutator &m, Value value, Value limit) {
  OpBuilder &b = m.builder;
  Location loc = value.getLoc();
  switch (m.draw(5)) {
  case 0:
    return arith::RemUIOp::create(b, loc, value, limit);
  case 1:
    return arith::RemSIOp::create(b, loc, value, limit);
  case 2:
    return arith::MinSIOp::create(b, loc, value, limit);
  case 3: { // value - (value / limit) * limit
    Value quotient = arith::DivUIOp::create(b, loc, value, limit);
    return arith::SubIOp::create(b, loc, value, arith::MulIOp::create(b, loc, quotient, limit));
  }
  default: {
    Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, value, limit);
    return arith::SelectOp::create(b, loc, below, value,
                                   arith::SubIOp::create(b, loc, limit, limit));
  }
  }
}

/// Limits an index of a load.
static bool limitIndex(Mutator &m) {
  auto varies = [](Value index) { return !index.getDefiningOp<arith::ConstantOp>(); };
  auto load = m.pick<memref::LoadOp>(
      [&](memref::LoadOp op) { return llvm::any_of(op.getIndices(), varies); });
  if (!load)
    return false;
  SmallVector<OpOperand *> indices;
  for (OpOperand &index : load.getIndicesMutable())
    if (varies(index.get()))
      indices.push_back(&index);
  OpOperand *index = indices[m.seed / 3 % indices.size()];
  SmallVector<kernel::SizeOp> sizes;
  load->getParentOfType<kernel::FuncOp>().walk([&](kernel::SizeOp size) { sizes.push_back(size); });
  Value limit;
  if (sizes.empty() || m.seed % 2) {
    limit = makePower(m.builder, load.getLoc(), m.builder.getIndexType(), 3);
  } else {
    Value size = sizes[m.seed / 2 % sizes.size()];
    limit = arith::MulIOp::create(m.builder, load.getLoc(), size, size);
    limit = arith::MulIOp::create(m.builder, load.getLoc(), limit, size);
  }
  index->set(limitValue(m, index->get(), limit));
  return true;
}

/// Limits an integer that is loaded or computed: an id, a length, a position.
static bool limitInteger(Mutator &m) {
  auto op = m.pick<Operation *>([](Operation *op) {
    return isa<memref::LoadOp, arith::AddIOp, arith::SubIOp, arith::IndexCastOp>(op) &&
           op->getResult(0).getType().isInteger(64);
  });
  if (!op)
    return false;
  m.builder.setInsertionPointAfter(op);
  Value value = op->getResult(0);
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    uses.push_back(&use);
  Value limit = makePower(m.builder, op->getLoc(), value.getType(), 4);
  Value limited = limitValue(m, value, limit);
  for (OpOperand *use : uses)
    use->set(limited);
  return true;
}

/// Adds a promise to LLVM that is false or unproved.
static bool promise(Mutator &m) {
  auto op = m.pick<Operation *>([](Operation *op) {
    return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, memref::LoadOp, memref::StoreOp>(op) &&
           op->getParentOfType<kernel::FuncOp>();
  });
  if (!op)
    return false;
  if (!isa<memref::LoadOp, memref::StoreOp>(op)) {
    op->setAttr("overflowFlags", arith::IntegerOverflowFlagsAttr::get(
                                     m.context, m.draw(2) ? arith::IntegerOverflowFlags::nsw
                                                          : arith::IntegerOverflowFlags::nuw));
    return true;
  }
  if (m.draw(2))
    op->setAttr("alignment", m.builder.getI64IntegerAttr(4096));
  else
    op->setAttr("nontemporal", m.builder.getBoolAttr(true));
  return true;
}

/// Lets a lookup report another index or size.
static bool reportOther(Mutator &m) {
  auto others = [](kernel::CheckOp op) {
    SmallVector<Value> found;
    op->getParentOfType<kernel::FuncOp>().walk([&](kernel::SizeOp size) {
      if (size.getResult() != op.getSize())
        found.push_back(size);
    });
    return found;
  };
  auto op = m.pick<kernel::CheckOp>([](kernel::CheckOp) { return true; });
  if (!op)
    return false;
  SmallVector<Value> sizes = others(op);
  auto below = op.getExists().getDefiningOp<arith::CmpIOp>();
  if (m.draw(2) && !sizes.empty())
    op.getSizeMutable().assign(sizes[m.seed % sizes.size()]);
  else if (below && below.getLhs() != op.getIndex())
    op.getIndexMutable().assign(below.getLhs());
  else
    return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

/// Returns 2^40 bytes times floordiv(symbol, 40 or 4096), for a symbol in the frame's size.
static std::optional<SymExpr> getExtraBytes(Mutator &m, buffer::PushOp push) {
  std::set<std::string> symbols;
  push.getBytes().getExpr().collectSymbols(symbols);
  std::erase_if(symbols, [](const std::string &name) {
    return name.front() == '_' || name.find('.') != std::string::npos;
  });
  if (symbols.empty())
    return std::nullopt;
  SymExpr size = SymExpr::symbol(*std::next(symbols.begin(), m.draw(symbols.size())));
  return SymExpr(int64_t(1) << 40) * SymExpr::floorDiv(size, SymExpr(m.seed % 2 ? 40 : 4096));
}

static bool enlargeFrame(Mutator &m) {
  auto push = m.pick<buffer::PushOp>([&](buffer::PushOp op) { return bool(getExtraBytes(m, op)); });
  if (!push)
    return false;
  push.setBytesAttr(
      buffer::ExprAttr::get(m.context, push.getBytes().getExpr() + *getExtraBytes(m, push)));
  return true;
}

static bool addFrame(Mutator &m) {
  auto push = m.pick<buffer::PushOp>([&](buffer::PushOp op) { return bool(getExtraBytes(m, op)); });
  if (!push)
    return false;
  auto other = buffer::PushOp::create(m.builder, push.getLoc(),
                                      buffer::ExprAttr::get(m.context, *getExtraBytes(m, push)));
  buffer::PopOp::create(m.builder, push.getLoc(), other.getFrame());
  m.location = other;
  return true;
}

ArrayRef<Mutation> mutate::getArithmeticMutations() {
  static constexpr Mutation mutations[] = {
      {"kernel-index-limited", "an index wraps or is clamped at a computed number", limitIndex},
      {"kernel-integer-limited", "an integer wraps or is clamped at a computed number",
       limitInteger},
      {"kernel-promise", "an op makes an unproven promise to LLVM", promise},
      {"kernel-report-other", "a lookup reports another index or size", reportOther},
      {"lowered-frame-larger", "a frame is larger from some size on", enlargeFrame},
      {"lowered-frame-unused", "a frame is pushed and popped, and unused", addFrame},
  };
  return mutations;
}
