//===- KernelLowering.cpp - A kernel as loops for a CPU --------------------===//

#include "KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Value KernelLowering::add(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return constant(*cx + *cy);
  if (cy == 0)
    return x;
  if (cx == 0)
    return y;
  return LLVM::AddOp::create(b, loc, x, y);
}

Value KernelLowering::mul(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return constant(*cx * *cy);
  if (cx == 0 || cy == 0)
    return constant(0);
  if (cy == 1)
    return x;
  if (cx == 1)
    return y;
  return LLVM::MulOp::create(b, loc, x, y);
}

Value KernelLowering::less(Value x, Value y) {
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, x, y);
}

SmallVector<Value> KernelLowering::values(ArrayRef<SymExpr> exprs) {
  return llvm::map_to_vector(exprs, [&](const SymExpr &expr) { return sizes->expr(expr); });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelLowering::address(Value pointer, Type type, Value linear) {
  // A boolean takes a byte.
  Type memory = type.isInteger(1) ? b.getI8Type() : type;
  return LLVM::GEPOp::create(b, loc, pointer.getType(), memory, pointer,
                             ArrayRef<LLVM::GEPArg>{linear});
}

Value KernelLowering::elementAddress(Value memref, ValueRange indices) {
  auto [it, isNew] = sizesOf.try_emplace(memref);
  if (isNew)
    it->second = values(source.getSizesOf(memref));
  Value linear = constant(0);
  for (auto [index, size] : llvm::zip_equal(indices, it->second))
    linear = add(mul(linear, size), map.lookup(index));
  return address(map.lookup(memref), cast<MemRefType>(memref.getType()).getElementType(), linear);
}

Value KernelLowering::lowerLoad(memref::LoadOp op) {
  bool isBool = op.getType().isInteger(1);
  auto load = LLVM::LoadOp::create(b, loc, isBool ? b.getI8Type() : op.getType(),
                                   elementAddress(op.getMemref(), op.getIndices()));
  unsigned number = cast<BlockArgument>(op.getMemref()).getArgNumber();
  load.setInvariant(number < source.getOperandMemory().size());
  if (group)
    load.setAccessGroupsAttr(b.getArrayAttr({group}));
  if (!isBool)
    return load;
  Value zero = LLVM::ConstantOp::create(b, loc, b.getI8Type(), b.getI8IntegerAttr(0));
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, load, zero);
}

void KernelLowering::lowerStore(memref::StoreOp op) {
  Value value = map.lookup(op.getValue());
  Value where = elementAddress(op.getMemref(), op.getIndices());
  if (value.getType().isInteger(1))
    value = LLVM::ZExtOp::create(b, loc, b.getI8Type(), value);
  auto store = LLVM::StoreOp::create(b, loc, value, where);
  if (group)
    store.setAccessGroupsAttr(b.getArrayAttr({group}));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void KernelLowering::lowerScalar(Operation *op) {
  if (auto literal = dyn_cast<arith::ConstantOp>(op); literal && literal.getType().isIndex()) {
    map.map(literal.getResult(), constant(cast<IntegerAttr>(literal.getValue()).getInt()));
    return;
  }
  // Between indices and integers of 64 bits there is nothing to do.
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    Value from = map.lookup(op->getOperand(0));
    Type to = op->getResult(0).getType();
    if (to.isIndex())
      to = b.getI64Type();
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
  // What is known now that sizes are put in.
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

void KernelLowering::lowerCheck(kernel::CheckOp op) {
  nodes.insert(op.getNodeAttr());
  int32_t node = llvm::find(nodes, op.getNodeAttr()) - nodes.begin();
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *after = b.createBlock(region, std::next(before->getIterator()));
  Block *missing = b.createBlock(after), *first = b.createBlock(after);
  using Layout = abi::Layout<tpc_status>;
  auto field = [&](Layout::Place place) -> Value {
    return LLVM::GEPOp::create(b, loc, status.getType(),
                               abi::getStructType<tpc_status>(b.getContext()), status,
                               ArrayRef<LLVM::GEPArg>{0, place});
  };
  auto i32 = [&](int32_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value));
  };
  // Others may meet one at the same time: the first one stays.
  b.setInsertionPointToEnd(missing);
  Value known = LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::xchg, field(Layout::missing),
                                          i32(1), LLVM::AtomicOrdering::monotonic);
  Value none = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, known, i32(0));
  LLVM::CondBrOp::create(b, loc, none, first, ValueRange(), after, ValueRange());
  b.setInsertionPointToEnd(first);
  LLVM::StoreOp::create(b, loc, i32(node), field(Layout::node));
  LLVM::StoreOp::create(b, loc, map.lookup(op.getIndex()), field(Layout::index));
  LLVM::StoreOp::create(b, loc, map.lookup(op.getSize()), field(Layout::size));
  LLVM::BrOp::create(b, loc, ValueRange(), after);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, map.lookup(op.getExists()), after, ValueRange(), missing,
                         ValueRange());
  b.setInsertionPointToStart(after);
}

void KernelLowering::lowerOp(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](kernel::SizeOp size) { map.map(size.getResult(), sizes->expr(size.getExpr())); })
      .Case([&](kernel::ElementsOp elements) { lowerElements(elements); })
      .Case([&](kernel::FoldOp fold) { map.map(fold.getResult(), lowerFold(fold)); })
      .Case([&](kernel::CheckOp check) { lowerCheck(check); })
      .Case([&](kernel::BarrierOp) {})
      .Case([&](scf::ForOp loop) { lowerFor(loop); })
      .Case([&](scf::IfOp branch) { lowerIf(branch); })
      .Case([&](memref::LoadOp load) { map.map(load.getResult(), lowerLoad(load)); })
      .Case([&](memref::StoreOp store) { lowerStore(store); })
      .Default([&](Operation *scalar) { lowerScalar(scalar); });
}

void KernelLowering::lowerBody(Block &block) {
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>())
      lowerOp(&op);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void KernelLowering::lowerRows(kernel::RowsOp rows, Value lo, Value hi) {
  Block &body = rows.getBody().front();
  auto indices = rows.getIndices();
  unsigned rank = indices.size();
  if (rank == 0)
    return lowerBody(body);
  SmallVector<Value> counts = values(rows.getExprs());
  // Going to the next row is an addition with carries, not divisions.
  SmallVector<Value> init;
  if (rank > 1) {
    init.resize(rank);
    Value linear = lo;
    for (unsigned i = rank - 1; i > 0; --i) {
      bool one = asConstant(counts[i]) == 1;
      init[i] = one ? constant(0) : LLVM::URemOp::create(b, loc, linear, counts[i]).getResult();
      if (!one)
        linear = LLVM::UDivOp::create(b, loc, linear, counts[i]);
    }
    init[0] = linear;
  }
  loop(lo, hi, init, [&](Value iv, ValueRange carried) {
    SmallVector<Value> row(carried);
    if (rank == 1)
      row = {iv};
    map.map(indices, row);
    lowerBody(body);
    if (rank == 1)
      return SmallVector<Value>();
    Value carry = constant(1);
    for (unsigned i = rank - 1; i > 0; --i) {
      Value next = add(row[i], carry);
      Value wraps = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, next, counts[i]);
      row[i] = LLVM::SelectOp::create(b, loc, wraps, constant(0), next);
      carry = LLVM::ZExtOp::create(b, loc, b.getI64Type(), wraps);
    }
    row[0] = add(row[0], carry);
    return row;
  });
}

void KernelLowering::lower() {
  MLIRContext *context = b.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  target = LLVM::LLVMFuncOp::create(b, loc, source.getName(), abi::getType<tpc_kernel_fn>(context),
                                    LLVM::Linkage::Internal);
  Block *entry = target.addEntryBlock(b);
  Block *body = b.createBlock(&target.getBody());
  b.setInsertionPointToStart(entry);
  auto branch = LLVM::BrOp::create(b, loc, body);
  b.setInsertionPoint(branch);
  // The parameters of tpc_kernel_fn.
  Value env = entry->getArgument(0), operands = entry->getArgument(2);
  Value lo = entry->getArgument(3), hi = entry->getArgument(4);
  status = entry->getArgument(1);
  for (BlockArgument memory : source.getBody().getArguments()) {
    Value slot = LLVM::GEPOp::create(b, loc, pointer, pointer, operands,
                                     ArrayRef<LLVM::GEPArg>{(int32_t)memory.getArgNumber()});
    auto load = LLVM::LoadOp::create(b, loc, pointer, slot);
    load.setInvariant(true);
    map.map(memory, load);
  }
  sizes = std::make_unique<SizeEmitter>(b, loc, layout, env);
  kernel::RowsOp rows = source.getRows();
  // A launch may cover more rows than there are.
  hi = LLVM::SMinOp::create(b, loc, hi, sizes->product(values(rows.getExprs())));

  b.setInsertionPointToStart(body);
  for (Operation &op : llvm::drop_end(source.getBody().front()))
    lowerOp(&op);
  lowerRows(rows, lo, hi);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}
