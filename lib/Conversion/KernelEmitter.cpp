//===- KernelEmitter.cpp - Code of one kernel -----------------------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;

#include "tpc/Interfaces/KernelInterfaces.cpp.inc"

Type mlir::tpc::getScalarType(Type tensor) {
  Type element = getElementTypeOrSelf(tensor);
  if (auto integer = dyn_cast<IntegerType>(element))
    return IntegerType::get(element.getContext(), integer.getWidth());
  return element;
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value KernelEmitter::add(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return constant(*cx + *cy);
  if (cy == 0)
    return x;
  if (cx == 0)
    return y;
  return LLVM::AddOp::create(b, loc, x, y);
}

Value KernelEmitter::sub(Value x, Value y) {
  if (asConstant(y) == 0)
    return x;
  return LLVM::SubOp::create(b, loc, x, y);
}

Value KernelEmitter::mul(Value x, Value y) {
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

Value KernelEmitter::less(Value x, Value y) {
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, x, y);
}

Value KernelEmitter::quotient(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy && *cy > 0)
    return constant(*cx / *cy);
  return cy == 1 ? x : LLVM::UDivOp::create(b, loc, x, y).getResult();
}

Value KernelEmitter::remainder(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy && *cy > 0)
    return constant(*cx % *cy);
  return cy == 1 ? constant(0) : LLVM::URemOp::create(b, loc, x, y).getResult();
}

Value KernelEmitter::linearize(ValueRange index, ArrayRef<Value> sizes) {
  Value linear = constant(0);
  for (auto [i, size] : llvm::zip_equal(index, sizes))
    linear = add(mul(linear, size), i);
  return linear;
}

SmallVector<Value> KernelEmitter::delinearize(Value linear, ArrayRef<Value> sizes) {
  SmallVector<Value> index(sizes.size());
  for (int64_t i = sizes.size() - 1; i > 0; --i) {
    index[i] = remainder(linear, sizes[i]);
    linear = quotient(linear, sizes[i]);
  }
  if (!index.empty())
    index[0] = linear;
  return index;
}

Value KernelEmitter::globalIndex(DimAttr dim, Value local) {
  return getGlobalIndex(*this, sizes(), dim, local);
}

Value KernelEmitter::localIndex(DimAttr dim, Value global, Value *inside) {
  LocalIndex local = getLocalIndex(*this, sizes(), dim, global);
  if (!inside)
    return local.index;
  *inside = {};
  for (auto [index, size] : local.inside) {
    Value one = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ult, index, size);
    *inside = *inside ? LLVM::AndOp::create(b, loc, *inside, one).getResult() : one;
  }
  if (!*inside)
    *inside = LLVM::ConstantOp::create(b, loc, b.getI1Type(), b.getBoolAttr(true));
  return local.index;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value KernelEmitter::scalar(Type type, double value) {
  type = getScalarType(type);
  TypedAttr attr = isa<FloatType>(type) ? TypedAttr(b.getFloatAttr(type, value))
                                        : TypedAttr(b.getIntegerAttr(type, (int64_t)value));
  return arith::ConstantOp::create(b, loc, attr);
}

Type mlir::tpc::getComputeType(Type tensor) {
  Type type = getScalarType(tensor);
  return type.isF16() || type.isBF16() ? Float32Type::get(type.getContext()) : type;
}

Value KernelEmitter::wide(Value tensor, ValueRange index) {
  Value v = element(tensor, index);
  Type type = getComputeType(tensor.getType());
  return v.getType() == type ? v : arith::ExtFOp::create(b, loc, type, v).getResult();
}

Value KernelEmitter::narrow(Value v, Type tensor) {
  Type type = getScalarType(tensor);
  return v.getType() == type ? v : arith::TruncFOp::create(b, loc, type, v).getResult();
}

Value KernelEmitter::plus(Value x, Value y) {
  if (isa<IntegerType>(getElementTypeOrSelf(x.getType())))
    return arith::AddIOp::create(b, loc, x, y);
  return arith::AddFOp::create(b, loc, x, y);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelEmitter::remember(Operation *op, ValueRange index,
                                           function_ref<SmallVector<Value>()> build) {
  Key key{op, {}};
  for (Value v : index)
    key.second.push_back(v.getAsOpaquePointer());
  for (auto &scope : llvm::reverse(memory))
    if (auto it = scope.find(key); it != scope.end())
      return it->second;
  SmallVector<Value> result = build();
  memory.back()[key] = result;
  return result;
}

ArrayRef<Value> KernelEmitter::sizesOf(Value tensor) {
  auto [it, isNew] = tensorSizes.try_emplace(tensor);
  if (isNew)
    it->second = sizes().localSizes(tensor.getType());
  return it->second;
}

bool KernelEmitter::isRow(Value tensor, ValueRange index) const {
  return index.size() >= currentRow.size() &&
         llvm::equal(index.take_front(currentRow.size()), currentRow);
}

Value KernelEmitter::address(Value pointer, Type type, Value linear) {
  // A boolean takes a byte.
  Type memory = type.isInteger(1) ? b.getI8Type() : type;
  return LLVM::GEPOp::create(b, loc, pointer.getType(), memory, pointer,
                             ArrayRef<LLVM::GEPArg>{linear});
}

Value KernelEmitter::load(Value pointer, Value tensor, ValueRange index, bool invariant) {
  Type type = getScalarType(tensor.getType());
  Value where = address(pointer, type, linearize(index, sizesOf(tensor)));
  bool isBool = type.isInteger(1);
  auto load = LLVM::LoadOp::create(b, loc, isBool ? b.getI8Type() : type, where);
  load.setInvariant(invariant);
  if (group)
    load.setAccessGroupsAttr(b.getArrayAttr({group}));
  if (!isBool)
    return load;
  Value zero = LLVM::ConstantOp::create(b, loc, b.getI8Type(), b.getI8IntegerAttr(0));
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, load, zero);
}

Value KernelEmitter::element(Value tensor, ValueRange index) {
  if (auto arg = dyn_cast<BlockArgument>(tensor)) {
    SmallVector<void *, 4> key;
    for (Value v : index)
      key.push_back(v.getAsOpaquePointer());
    for (auto &scope : llvm::reverse(memory))
      if (auto it = scope.find({tensor.getAsOpaquePointer(), key}); it != scope.end())
        return it->second[0];
    Value value = load(pointers.lookup(arg), tensor, index, /*invariant=*/true);
    memory.back()[{tensor.getAsOpaquePointer(), key}] = {value};
    return value;
  }
  // What is stored already is read; other rows may not be there yet.
  if (stored.contains(tensor.getAsOpaquePointer()) && isRow(tensor, index))
    return load(pointers.lookup(tensor), tensor, index, /*invariant=*/false);
  SmallVector<Value> copy(index);
  Operation *op = tensor.getDefiningOp();
  return remember(op, copy, [&]() -> SmallVector<Value> {
    return {cast<KernelOpInterface>(op).buildElement(*this, copy)};
  })[0];
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void KernelEmitter::store(Value tensor, ValueRange row) {
  Type type = getScalarType(tensor.getType());
  SmallVector<Value> sizes(sizesOf(tensor)), index(row);
  index.resize(sizes.size());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(row.size(), sizes.size()));
  loops(sizes, dims, index, {}, [&](ValueRange at, ValueRange) {
    Value value = element(tensor, at);
    Value where = address(pointers.lookup(tensor), type, linearize(at, sizes));
    if (type.isInteger(1))
      value = LLVM::ZExtOp::create(b, loc, b.getI8Type(), value);
    auto store = LLVM::StoreOp::create(b, loc, value, where);
    if (group)
      store.setAccessGroupsAttr(b.getArrayAttr({group}));
    return SmallVector<Value>();
  });
  stored.insert(tensor.getAsOpaquePointer());
}

/// The ops of which the kernel's rows are rows: its results, and what these need the same row of.
/// Behind a concatenation along the rows, say, others are needed, and these may be none of the
/// op's.
void KernelEmitter::findRowOps() {
  Operation *terminator = source.front().getTerminator();
  for (Operation &op : llvm::reverse(source.front().without_terminator())) {
    Value result = op.getResult(0);
    if (cast<RankedTensorType>(result.getType()).getRank() < rowRank)
      continue;
    bool needed = llvm::any_of(result.getUses(), [&](OpOperand &use) {
      return use.getOwner() == terminator || (rowOps.contains(use.getOwner()) &&
                                              cast<KernelOpInterface>(use.getOwner())
                                                  .isRowAligned(use.getOperandNumber(), rowRank));
    });
    ArrayRef<DimAttr> rows = getDist(terminator->getOperand(0)).getDims().take_front(rowRank);
    if (needed && getDist(result).getDims().take_front(rowRank) == rows)
      rowOps.insert(&op);
  }
}

void KernelEmitter::emitRow(ValueRange row) {
  currentRow.assign(row.begin(), row.end());
  stored.clear();
  Operation *terminator = source.front().getTerminator();
  for (Operation &op : source.front().without_terminator()) {
    if (rowOps.contains(&op))
      cast<KernelOpInterface>(op).buildRow(*this, row);
    if (llvm::is_contained(terminator->getOperands(), op.getResult(0)))
      store(op.getResult(0), row);
  }
}

LogicalResult KernelEmitter::emit() {
  MLIRContext *context = b.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = b.getI64Type();
  b.setInsertionPoint(source);
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
  int32_t next = 0;
  auto loadOperand = [&]() -> Value {
    Value slot =
        LLVM::GEPOp::create(b, loc, pointer, pointer, operands, ArrayRef<LLVM::GEPArg>{next++});
    auto load = LLVM::LoadOp::create(b, loc, pointer, slot);
    load.setInvariant(true);
    return load;
  };
  for (Value arg : source.getArguments())
    pointers[arg] = loadOperand();
  OperandRange results = source.front().getTerminator()->getOperands();
  for (Value result : results)
    pointers[result] = loadOperand();
  sizeEmitter = std::make_unique<SizeEmitter>(b, loc, host.layout, env);

  rowRank = source->getAttrOfType<IntegerAttr>(kKernelAttr).getInt();
  findRowOps();
  SmallVector<Value> rows(sizesOf(results[0]).take_front(rowRank));
  // A launch may cover more rows than there are.
  hi = LLVM::SMinOp::create(b, loc, hi, sizes().product(rows));
  b.setInsertionPointToStart(body);
  Scope scope(*this);
  if (rowRank == 0) {
    emitRow({});
  } else {
    // Going to the next row is an addition with carries, not divisions.
    SmallVector<Value> init;
    if (rowRank > 1)
      init = delinearize(lo, rows);
    loop(lo, hi, init, [&](Value iv, ValueRange carried) {
      SmallVector<Value> row(carried);
      if (rowRank == 1)
        row = {iv};
      emitRow(row);
      if (rowRank == 1)
        return SmallVector<Value>();
      Value carry = constant(1);
      for (int64_t i = rowRank - 1; i > 0; --i) {
        Value next = add(row[i], carry);
        Value wraps = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, next, rows[i]);
        row[i] = LLVM::SelectOp::create(b, loc, wraps, constant(0), next);
        carry = LLVM::ZExtOp::create(b, loc, i64, wraps);
      }
      row[0] = add(row[0], carry);
      return row;
    });
  }
  LLVM::ReturnOp::create(b, loc, ValueRange());
  return success();
}
