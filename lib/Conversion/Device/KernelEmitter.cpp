//===- KernelEmitter.cpp - Scalars, memory and checks of a kernel ---------===//

#include "tpc/Conversion/Device/KernelEmitter.h"

#include "tpc/Conversion/Env/RuntimeAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Value KernelEmitter::indexLike(Value index, int64_t value) {
  if (index.getType().isInteger(64))
    return constant(value);
  return LLVM::ConstantOp::create(b, loc, index.getType(),
                                  b.getIntegerAttr(index.getType(), value));
}

Value KernelEmitter::wide(Value index) {
  if (index.getType().isInteger(64))
    return index;
  if (auto known = asConstant(index))
    return constant(*known);
  return LLVM::SExtOp::create(b, loc, b.getI64Type(), index);
}

Value KernelEmitter::add(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return indexLike(x, *cx + *cy);
  if (cy == 0)
    return x;
  if (cx == 0)
    return y;
  return LLVM::AddOp::create(b, loc, x, y);
}

Value KernelEmitter::mul(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return indexLike(x, *cx * *cy);
  if (cx == 0 || cy == 0)
    return indexLike(x, 0);
  if (cy == 1)
    return x;
  if (cx == 1)
    return y;
  return LLVM::MulOp::create(b, loc, x, y);
}

SmallVector<Value> KernelEmitter::extents(ArrayRef<SymExpr> exprs) {
  return llvm::map_to_vector(exprs, [&](const SymExpr &expr) { return extent(expr); });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelEmitter::address(Value pointer, Type type, Value linear) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), getMemoryType(type), pointer,
                             ArrayRef<LLVM::GEPArg>{linear});
}

ArrayRef<Value> KernelEmitter::memorySizes(Value memref) {
  auto [it, isNew] = sizesOf.try_emplace(memref);
  if (isNew)
    it->second = llvm::map_to_vector(source.getSizesOf(memref),
                                     [&](const SymExpr &size) { return sizes->expr(size); });
  return it->second;
}

Value KernelEmitter::elementAddress(Value memref, ValueRange indices) {
  Value linear = constant(0), row = constant(0);
  auto rows = source.getRowStride(memref);
  for (auto [i, index, size] : llvm::enumerate(indices, memorySizes(memref))) {
    linear = add(mul(linear, size), map.lookup(index));
    if (rows && i + 1 == rows->dims) {
      row = mul(linear, sizes->expr(rows->stride));
      linear = constant(0);
    }
  }
  linear = add(row, linear);
  return address(map.lookup(memref), cast<MemRefType>(memref.getType()).getElementType(), linear);
}

Value KernelEmitter::fromMemory(Value loaded, Type type) {
  if (!type.isInteger(1))
    return loaded;
  Value zero = LLVM::ConstantOp::create(b, loc, b.getI8Type(), b.getI8IntegerAttr(0));
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, loaded, zero);
}

Value KernelEmitter::toMemory(Value value) {
  if (!value.getType().isInteger(1))
    return value;
  return LLVM::ZExtOp::create(b, loc, b.getI8Type(), value);
}

bool KernelEmitter::isOperand(Value memref) {
  return cast<BlockArgument>(memref).getArgNumber() < source.getOperandMemory().size();
}

Value KernelEmitter::lowerLoad(memref::LoadOp op) {
  auto load = LLVM::LoadOp::create(b, loc, getMemoryType(op.getType()),
                                   elementAddress(op.getMemref(), op.getIndices()));
  load.setInvariant(isOperand(op.getMemref()) && !source.isOverwritten(op.getMemref()));
  annotate(load);
  return fromMemory(load, op.getType());
}

void KernelEmitter::lowerStore(memref::StoreOp op) {
  Value value = map.lookup(op.getValue());
  Value where = elementAddress(op.getMemref(), op.getIndices());
  annotate(LLVM::StoreOp::create(b, loc, toMemory(value), where));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void KernelEmitter::lowerScalar(Operation *op) {
  if (auto literal = dyn_cast<arith::ConstantOp>(op); literal && literal.getType().isIndex()) {
    map.map(literal.getResult(), constant(cast<IntegerAttr>(literal.getValue()).getInt()));
    return;
  }
  // Casts between indices and 64-bit integers are no-ops.
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    Value from = map.lookup(op->getOperand(0));
    Type to = getCarriedType(op->getResult(0).getType());
    unsigned have = from.getType().getIntOrFloatBitWidth(), want = to.getIntOrFloatBitWidth();
    Value result = from;
    if (want < have)
      result = arith::TruncIOp::create(b, loc, to, from);
    else if (want > have && isa<arith::IndexCastOp>(op))
      result = arith::ExtSIOp::create(b, loc, to, from);
    else if (want > have)
      result = arith::ExtUIOp::create(b, loc, to, from);
    map.map(op->getResult(0), result);
    return;
  }
  Operation *copy = b.clone(*op, map);
  bool isOnIndices = false;
  for (OpResult result : copy->getResults())
    if (result.getType().isIndex()) {
      result.setType(b.getI64Type());
      isOnIndices = true;
    }
  // Folds the op, because lowered sizes may be constants.
  SmallVector<OpFoldResult> folded;
  if (!isOnIndices || failed(copy->fold(folded)) || folded.size() != copy->getNumResults())
    return;
  for (auto [result, value] : llvm::zip_equal(op->getResults(), folded)) {
    if (auto attr = dyn_cast<Attribute>(value))
      map.map(result, constant(cast<IntegerAttr>(attr).getInt()));
    else
      map.map(result, cast<Value>(value));
  }
  copy->erase();
}

void KernelEmitter::lowerCheck(kernel::CheckOp op) {
  nodes.insert(op.getNodeAttr());
  int32_t node = llvm::find(nodes, op.getNodeAttr()) - nodes.begin();
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *after = b.createBlock(region, std::next(before->getIterator()));
  Block *missing = b.createBlock(after), *first = b.createBlock(after);
  using Layout = abi::Layout<tpc_status>;
  auto field = [&](Layout::FieldIndex index) -> Value {
    return LLVM::GEPOp::create(b, loc, status.getType(),
                               abi::getStructType<tpc_status>(b.getContext()), status,
                               ArrayRef<LLVM::GEPArg>{0, index});
  };
  auto i32 = [&](int32_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value));
  };
  // If several threads fail at the same time, only the first is reported.
  b.setInsertionPointToEnd(missing);
  Value known = LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::xchg, field(Layout::missing),
                                          i32(1), LLVM::AtomicOrdering::monotonic);
  Value isFirst = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, known, i32(0));
  LLVM::CondBrOp::create(b, loc, isFirst, first, ValueRange(), after, ValueRange());
  b.setInsertionPointToEnd(first);
  LLVM::StoreOp::create(b, loc, i32(node), field(Layout::node));
  LLVM::StoreOp::create(b, loc, wide(map.lookup(op.getIndex())), field(Layout::index));
  LLVM::StoreOp::create(b, loc, wide(map.lookup(op.getSize())), field(Layout::size));
  LLVM::BrOp::create(b, loc, ValueRange(), after);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, map.lookup(op.getExists()), after, ValueRange(), missing,
                         ValueRange());
  b.setInsertionPointToStart(after);
}

void KernelEmitter::lowerOp(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](kernel::SizeOp size) { lowerSize(size); })
      .Case([&](kernel::ElementsOp elements) { lowerElements(elements); })
      .Case([&](kernel::FoldOp fold) { map.map(fold.getResult(), lowerFold(fold)); })
      .Case([&](kernel::CheckOp check) { lowerCheck(check); })
      .Case([&](kernel::BarrierOp barrier) { lowerBarrier(barrier); })
      .Case([&](scf::ForOp loop) { lowerFor(loop); })
      .Case([&](scf::IfOp branch) { lowerIf(branch); })
      .Case([&](memref::LoadOp load) { map.map(load.getResult(), lowerLoad(load)); })
      .Case([&](memref::StoreOp store) { lowerStore(store); })
      .Default([&](Operation *scalar) { lowerScalar(scalar); });
}

void KernelEmitter::lowerBody(Block &block) {
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>())
      lowerOp(&op);
}
