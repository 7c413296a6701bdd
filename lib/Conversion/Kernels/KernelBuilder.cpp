//===- KernelBuilder.cpp - Builder of kernel IR ---------------------------===//

#include "KernelBuilder.h"

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Iterators.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

#include "tpc/Interfaces/KernelInterfaces.cpp.inc"

Value mlir::tpc::getWritten(Value result) {
  auto op = result.getDefiningOp<KernelOpInterface>();
  return op ? op.getWritten() : result;
}

Value mlir::tpc::getAliasedOperand(Value result) {
  auto op = result.getDefiningOp<KernelOpInterface>();
  return op ? op.getAliasedOperand() : Value();
}

Type mlir::tpc::getScalarType(Type tensor) {
  Type element = getElementTypeOrSelf(tensor);
  if (auto integer = dyn_cast<IntegerType>(element))
    return IntegerType::get(element.getContext(), integer.getWidth());
  return element;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Value KernelBuilder::constant(int64_t value) {
  Value &slot = constants[value];
  if (!slot)
    slot = arith::ConstantIndexOp::create(entry, loc, value);
  return slot;
}

Value KernelBuilder::size(const SymExpr &expr) {
  // The literals 0 and 1 are constants, not sizes.
  if (expr.isConstant(0) || expr.isConstant(1))
    return constant(*expr.asConstant());
  Value &slot = sizeValues[expr.str()];
  if (!slot)
    slot = kernel::SizeOp::create(entry, loc, expr);
  return slot;
}

ArrayRef<SymExpr> KernelBuilder::sizesOf(Value tensor) {
  auto [it, isNew] = tensorSizes.try_emplace(tensor);
  if (isNew)
    it->second = getLocalSizes(tensor.getType(), grid);
  return it->second;
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

static std::optional<int64_t> asConstant(Value value) { return getConstantIntValue(value); }

Value KernelBuilder::add(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return constant(*cx + *cy);
  if (cy == 0)
    return x;
  if (cx == 0)
    return y;
  return arith::AddIOp::create(b, loc, x, y);
}

Value KernelBuilder::sub(Value x, Value y) {
  if (asConstant(y) == 0)
    return x;
  return arith::SubIOp::create(b, loc, x, y);
}

Value KernelBuilder::mul(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    return constant(*cx * *cy);
  if (cx == 0 || cy == 0)
    return constant(0);
  if (cy == 1)
    return x;
  if (cx == 1)
    return y;
  return arith::MulIOp::create(b, loc, x, y);
}

Value KernelBuilder::quotient(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy && *cy > 0)
    return constant(*cx / *cy);
  return cy == 1 ? x : arith::DivUIOp::create(b, loc, x, y).getResult();
}

Value KernelBuilder::remainder(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy && *cy > 0)
    return constant(*cx % *cy);
  return cy == 1 ? constant(0) : arith::RemUIOp::create(b, loc, x, y).getResult();
}

/// Returns the size of the dimension that an index of a loop runs over; nothing for other values.
static std::optional<SymExpr> getExtent(Value index) {
  auto argument = dyn_cast<BlockArgument>(index);
  if (!argument)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<SymExpr>>(argument.getOwner()->getParentOp())
      .Case<kernel::RowsOp, kernel::ElementsOp, kernel::FoldOp>(
          [&](auto loop) { return loop.getExprs()[argument.getArgNumber()]; })
      .Default([](Operation *) { return std::nullopt; });
}

Value KernelBuilder::less(Value x, Value y) {
  if (auto size = y.getDefiningOp<kernel::SizeOp>(); size && getExtent(x) == size.getExpr())
    return arith::ConstantIntOp::create(b, loc, 1, 1);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
}

Value KernelBuilder::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}

Value KernelBuilder::linearize(ValueRange index, ArrayRef<SymExpr> sizes) {
  Value linear = constant(0);
  for (auto [i, expr] : llvm::zip_equal(index, sizes))
    linear = add(mul(linear, size(expr)), i);
  return linear;
}

SmallVector<Value> KernelBuilder::delinearize(Value linear, ArrayRef<SymExpr> sizes) {
  SmallVector<Value> index(sizes.size());
  for (int64_t i = sizes.size() - 1; i > 0; --i) {
    index[i] = remainder(linear, size(sizes[i]));
    linear = quotient(linear, size(sizes[i]));
  }
  if (!index.empty())
    index[0] = linear;
  return index;
}

Value KernelBuilder::globalIndex(DimAttr dim, Value local) {
  return getGlobalIndex<Value>(*this, dim, grid, local);
}

Value KernelBuilder::localIndex(DimAttr dim, Value global, Value *inside) {
  LocalIndex<Value> local = getLocalIndex<Value>(*this, dim, grid, global);
  if (!inside)
    return local.index;
  *inside = {};
  for (auto &[index, expr] : local.bounds) {
    Value inDim = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, size(expr));
    *inside = *inside ? arith::AndIOp::create(b, loc, *inside, inDim).getResult() : inDim;
  }
  return local.index;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value KernelBuilder::scalar(Type type, double value) {
  type = getScalarType(type);
  TypedAttr attr = isa<FloatType>(type) ? TypedAttr(b.getFloatAttr(type, value))
                                        : TypedAttr(b.getIntegerAttr(type, (int64_t)value));
  return arith::ConstantOp::create(b, loc, attr);
}

Type mlir::tpc::getComputeType(Type tensor) {
  Type type = getScalarType(tensor);
  return type.isF16() || type.isBF16() ? Float32Type::get(type.getContext()) : type;
}

Value KernelBuilder::wide(Value tensor, ValueRange index) {
  Value v = element(tensor, index);
  Type type = getComputeType(tensor.getType());
  return v.getType() == type ? v : arith::ExtFOp::create(b, loc, type, v).getResult();
}

Value KernelBuilder::narrow(Value v, Type tensor) {
  Type type = getScalarType(tensor);
  return v.getType() == type ? v : arith::TruncFOp::create(b, loc, type, v).getResult();
}

Value KernelBuilder::plus(Value x, Value y) {
  return kernel::FoldOp::combine(b, loc, kernel::FoldKind::Sum, x, y);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::remember(Operation *op, ValueRange index,
                                           function_ref<SmallVector<Value>()> build) {
  Key key{op, {}};
  for (Value v : index)
    key.second.push_back(v.getAsOpaquePointer());
  for (auto &scope : llvm::reverse(remembered))
    if (auto it = scope.find(key); it != scope.end())
      return it->second;
  SmallVector<Value> result = build();
  remembered.back()[key] = result;
  return result;
}

bool KernelBuilder::isRow(Value tensor, ValueRange index) const {
  return index.size() >= currentRow.size() &&
         llvm::equal(index.take_front(currentRow.size()), currentRow);
}

Value KernelBuilder::element(Value tensor, ValueRange all) {
  if (auto arg = dyn_cast<BlockArgument>(tensor)) {
    SmallVector<void *, 4> key;
    for (Value v : all)
      key.push_back(v.getAsOpaquePointer());
    for (auto &scope : llvm::reverse(remembered))
      if (auto it = scope.find({tensor.getAsOpaquePointer(), key}); it != scope.end())
        return it->second[0];
    Value value = memref::LoadOp::create(b, loc, memory.lookup(arg), all);
    remembered.back()[{tensor.getAsOpaquePointer(), key}] = {value};
    return value;
  }
  // In a row dimension of size 1, index 0 is the current row's index.
  SmallVector<Value> index(all);
  for (auto [i, row, size] : llvm::zip(index, currentRow, rowSizes))
    if (size.isConstant(1) && asConstant(i) == 0)
      i = row;
  // Loads stored elements only of the current row, because other rows may not be stored yet.
  if (stored.contains(tensor.getAsOpaquePointer()) && isRow(tensor, index))
    return memref::LoadOp::create(b, loc, memory.lookup(tensor), index);
  Operation *op = tensor.getDefiningOp();
  return remember(op, index, [&]() -> SmallVector<Value> {
    return {cast<KernelOpInterface>(op).buildElement(*this, index)};
  })[0];
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

Value KernelBuilder::fold(kernel::FoldKind kind, Type type, ArrayRef<SymExpr> sizes, bool adjacent,
                          function_ref<Value(ValueRange)> term) {
  auto fold = kernel::FoldOp::create(b, loc, kind, sizes, adjacent, type);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&fold.getBody().front());
  Scope scope(*this);
  kernel::YieldOp::create(b, loc, term(llvm::to_vector_of<Value>(fold.getIndices())));
  return fold;
}

Value KernelBuilder::fold(kernel::FoldKind kind, Value tensor, ArrayRef<int64_t> dims,
                          SmallVectorImpl<Value> &index, function_ref<Value(ValueRange)> term) {
  SmallVector<SymExpr> sizes;
  for (int64_t dim : dims)
    sizes.push_back(sizesOf(tensor)[dim]);
  bool adjacent = !dims.empty() && dims.back() == rankOf(tensor) - 1;
  return fold(kind, getComputeType(tensor.getType()), sizes, adjacent, [&](ValueRange space) {
    for (auto [dim, i] : llvm::zip_equal(dims, space))
      index[dim] = i;
    return term(index);
  });
}

Value KernelBuilder::loop(Value lb, Value ub, Value init,
                          function_ref<Value(Value iv, Value carried)> body) {
  auto loop = scf::ForOp::create(b, loc, lb, ub, constant(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  Scope scope(*this);
  scf::YieldOp::create(b, loc, body(loop.getInductionVar(), loop.getRegionIterArg(0)));
  return loop.getResult(0);
}

Value KernelBuilder::ifElse(Value condition, Type type, function_ref<Value()> then,
                            function_ref<Value()> otherwise) {
  if (matchPattern(condition, m_One()))
    return then();
  auto branch = scf::IfOp::create(b, loc, type, condition, /*withElseRegion=*/true);
  auto fill = [&](Block *block, function_ref<Value()> build) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(block);
    Scope scope(*this);
    scf::YieldOp::create(b, loc, build());
  };
  fill(branch.thenBlock(), then);
  fill(branch.elseBlock(), otherwise);
  return branch.getResult(0);
}

void KernelBuilder::reportUnless(Value inside, Operation *lookup, Value index, Value size) {
  kernel::CheckOp::create(b, loc, inside, index, size, getSourceName(lookup->getLoc()));
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void KernelBuilder::store(Value tensor, ValueRange row) {
  auto elements =
      kernel::ElementsOp::create(b, loc, sizesOf(getWritten(tensor)).drop_front(row.size()));
  SmallVector<Value> index(row);
  llvm::append_range(index, elements.getIndices());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&elements.getBody().front());
  Scope scope(*this);
  Value value = element(tensor, index);
  if (!getAliasedOperand(tensor)) {
    memref::StoreOp::create(b, loc, value, memory.lookup(tensor), index);
    stored.insert(tensor.getAsOpaquePointer());
    return;
  }
  auto op = cast<KernelOpInterface>(tensor.getDefiningOp());
  if (Value exists = op.buildOverwrittenIndex(*this, index))
    b.setInsertionPointToStart(scf::IfOp::create(b, loc, exists).thenBlock());
  memref::StoreOp::create(b, loc, value, memory.lookup(tensor), index);
}

/// Stores one element of each of several results per iteration, after all of them are computed. The
/// results have the same elements in a row.
void KernelBuilder::storeTogether(ArrayRef<Value> tensors, ValueRange row) {
  auto elements =
      kernel::ElementsOp::create(b, loc, sizesOf(tensors.front()).drop_front(row.size()));
  SmallVector<Value> index(row), values;
  llvm::append_range(index, elements.getIndices());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&elements.getBody().front());
  Scope scope(*this);
  for (Value tensor : tensors)
    values.push_back(element(tensor, index));
  for (auto [tensor, value] : llvm::zip_equal(tensors, values))
    memref::StoreOp::create(b, loc, value, memory.lookup(tensor), index);
}

/// Finds the ops whose rows are the kernel's rows: ops that compute results and, transitively, ops
/// whose values such an op reads only in the current row. A concatenation along the rows reads
/// other rows of its operands, so these are excluded.
void KernelBuilder::findRowOps() {
  Operation *terminator = source.front().getTerminator();
  for (Operation &op : llvm::reverse(source.front().without_terminator())) {
    Value written = getWritten(op.getResult(0));
    if (rankOf(written) < rowRank)
      continue;
    bool needed = llvm::any_of(op.getUses(), [&](OpOperand &use) {
      return use.getOwner() == terminator || (rowOps.contains(use.getOwner()) &&
                                              cast<KernelOpInterface>(use.getOwner())
                                                  .isRowAligned(use.getOperandNumber(), rowRank));
    });
    ArrayRef<DimAttr> rows =
        getDist(getWritten(terminator->getOperand(0))).getDims().take_front(rowRank);
    if (needed && getDist(written).getDims().take_front(rowRank) == rows)
      rowOps.insert(&op);
  }
}

void KernelBuilder::buildRow(ValueRange row) {
  currentRow.assign(row.begin(), row.end());
  Operation *terminator = source.front().getTerminator();
  for (Operation &op : source.front().without_terminator()) {
    if (rowOps.contains(&op))
      cast<KernelOpInterface>(op).buildRow(*this, row);
    if (llvm::is_contained(terminator->getOperands(), op.getResult(0)) &&
        !llvm::is_contained(overwriting, op.getResult(0)))
      store(op.getResult(0), row);
  }
  while (!overwriting.empty()) {
    ArrayRef<SymExpr> sizes = sizesOf(overwriting.front());
    SmallVector<Value> together;
    llvm::copy_if(overwriting, std::back_inserter(together),
                  [&](Value tensor) { return sizesOf(tensor) == sizes; });
    llvm::erase_if(overwriting, [&](Value tensor) { return llvm::is_contained(together, tensor); });
    storeTogether(together, row);
  }
}

/// Marks the results whose iterations load the argument only at the index that they store, and
/// before the store.
void KernelBuilder::markOverwrites(kernel::FuncOp function, Overwrites overwrites) {
  OperandRange results = source.front().getTerminator()->getOperands();
  for (auto [result, argument] : overwrites) {
    Value operand = memory.lookup(argument);
    memref::StoreOp store;
    for (Operation *user : memory.lookup(results[result]).getUsers())
      if (auto found = dyn_cast<memref::StoreOp>(user))
        store = found;
    bool isSafe = llvm::all_of(operand.getUsers(), [&](Operation *user) {
      auto load = cast<memref::LoadOp>(user);
      return load->getBlock() == store->getBlock() && load->isBeforeInBlock(store) &&
             load.getIndices() == store.getIndices();
    });
    if (isSafe)
      function.setOverwritten(result, cast<BlockArgument>(operand).getArgNumber());
  }
}

/// Inserts a barrier before the first op of a row that loads elements stored by earlier ops.
void KernelBuilder::insertBarriers(Block &row) {
  llvm::SmallDenseSet<Value> pending;
  for (Operation &op : llvm::make_early_inc_range(row)) {
    SmallVector<Value> stored;
    bool waits = false;
    op.walk([&](Operation *inner) {
      if (auto load = dyn_cast<memref::LoadOp>(inner))
        waits |= pending.contains(load.getMemref());
      if (auto store = dyn_cast<memref::StoreOp>(inner))
        stored.push_back(store.getMemref());
    });
    if (waits) {
      OpBuilder at(&op);
      kernel::BarrierOp::create(at, op.getLoc());
      pending.clear();
    }
    pending.insert(stored.begin(), stored.end());
  }
}

kernel::FuncOp KernelBuilder::build(Overwrites overwrites) {
  rowRank = source->getAttrOfType<IntegerAttr>(kKernelAttr).getInt();
  grid = MeshAttr::lookup(source);
  OperandRange results = source.front().getTerminator()->getOperands();
  // A partially written argument is not an operand, because no op reads it.
  SmallVector<Value> tensors(source.getArguments());
  for (Value result : results)
    if (Value aliased = getAliasedOperand(result))
      llvm::erase(tensors, aliased);
  llvm::append_range(tensors, results);
  SmallVector<Type> elements;
  SmallVector<SmallVector<SymExpr>> sizes;
  for (Value tensor : tensors) {
    elements.push_back(getScalarType(tensor.getType()));
    sizes.push_back(llvm::to_vector(sizesOf(tensor)));
  }
  auto function = kernel::FuncOp::create(b, loc, source.getName(), elements, sizes, results.size());
  Block &body = function.getBody().front();
  for (auto [tensor, arg] : llvm::zip_equal(tensors, body.getArguments())) {
    memory[tensor] = arg;
    auto operand = dyn_cast<BlockArgument>(tensor);
    if (!operand)
      continue;
    if (auto rows = source.getArgAttrOfType<ArrayAttr>(operand.getArgNumber(), kRowStrideAttr))
      function.setRowStride(arg.getArgNumber(),
                            kernel::FuncOp::RowStride{unsigned(cast<IntegerAttr>(rows[0]).getInt()),
                                                      cast<SymExprAttr>(rows[1]).getExpr()});
  }

  b.setInsertionPointToEnd(&body);
  rowSizes = llvm::to_vector(sizesOf(getWritten(results[0])).take_front(rowRank));
  auto rows = kernel::RowsOp::create(b, loc, rowSizes);
  entry.setInsertionPoint(rows);
  b.setInsertionPointToEnd(&rows.getBody().front());
  findRowOps();
  for (auto &[result, argument] : overwrites)
    overwriting.push_back(results[result]);
  Scope scope(*this);
  buildRow(llvm::to_vector_of<Value>(rows.getIndices()));
  insertBarriers(rows.getBody().front());
  // Visits users before their operands, so that dead chains are erased in one walk.
  function.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
  markOverwrites(function, overwrites);
  return function;
}
