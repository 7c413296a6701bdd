//===- Flat.cpp - Elementwise kernels without groups ----------------------===//
//
// If rows have no folds or barriers, the chunks of all rows are numbered, and consecutive threads
// have consecutive chunks, also across rows. So simultaneous accesses of a warp are adjacent for
// any row length.
//
//   rows (%i, %h) in [n, heads]  elements (%j) in [128]
//   32 chunks per row; the number of a chunk is (i * heads + h) * 32 + chunk
//
// Rows may share operands: all heads of a token read the same cosines. Then chunks of different
// heads are consecutive, except that chunks of a row that fill a sector (here 2) stay together:
//
//   ((i * 16 + chunk / 2) * heads + h) * 2 + chunk % 2
//
// so that a warp covers 16 heads, and reads shared operands once.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

Value KernelLowering::countChunksOfLast(Value size, const Lanes &lanes) {
  return lanes.count ? number(*lanes.count) : quotient(size, number(lanes.stride));
}

Value KernelLowering::countChunks(kernel::ElementsOp op, const Lanes &lanes) {
  SmallVector<Value> sizes = extents(op.getExprs());
  return mul(product(ArrayRef(sizes).drop_back()), countChunksOfLast(sizes.back(), lanes));
}

void KernelLowering::findFlat() {
  unsigned widest = 1;
  kernel::ElementsOp only;
  unsigned count = 0;
  source.getRows().walk([&](kernel::ElementsOp op) {
    ++count;
    only = op;
    if (op.getIndices().empty())
      return;
    Lanes lanes = findChunks(op);
    widest = std::max(widest, lanes.width);
    flat.lanes[op] = lanes;
  });
  launch.elementsPerThread = widest;
  flat.isOnly = count == 1;
  if (count == 1 && only.getIndices().size() == 1)
    findSharing(only);
}

/// Collects the row indices that a value depends on.
static void collectRowIndices(Value value, kernel::RowsOp rows, llvm::SmallDenseSet<Value> &found) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner()->getParentOp() == rows)
      found.insert(value);
    return;
  }
  value.getDefiningOp()->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!isa<MemRefType>(operand.getType()))
        collectRowIndices(operand, rows, found);
  });
}

/// Finds a row index that some loads use and others do not. Rows that differ only in this index
/// share the elements of the other loads.
void KernelLowering::findSharing(kernel::ElementsOp op) {
  kernel::RowsOp rows = source.getRows();
  Value last = op.getIndices().back();
  const Lanes &lanes = flat.lanes[op];
  int64_t together = 1;
  bool fillsSectors = lanes.count.has_value();
  SmallVector<llvm::SmallDenseSet<Value>> uses;
  auto consider = [&](Value memref, ValueRange indices) {
    if (indices.empty() || !getShift(indices.back(), last))
      return;
    int64_t bytes = std::max(1u, cast<MemRefType>(memref.getType()).getElementTypeBitWidth() / 8);
    auto length = asConstant(extent(source.getSizesOf(memref).back()));
    fillsSectors &= length && *length * bytes % kSector == 0;
    together = std::max(together, kSector / std::min<int64_t>(bytes * lanes.adjacent, kSector));
    uses.emplace_back();
    for (Value index : indices.drop_back())
      collectRowIndices(index, rows, uses.back());
  };
  op.walk([&](memref::StoreOp store) { consider(store.getMemref(), store.getIndices()); });
  unsigned stores = uses.size();
  op.walk([&](memref::LoadOp load) { consider(load.getMemref(), load.getIndices()); });
  if (!fillsSectors || *lanes.count % together || uses.size() == stores)
    return;
  for (Value index : llvm::reverse(rows.getIndices())) {
    auto has = [&](const auto &found) { return found.contains(index); };
    auto hasNot = [&](const auto &found) { return !found.empty() && !found.contains(index); };
    auto loads = ArrayRef(uses).drop_front(stores);
    unsigned position = cast<BlockArgument>(index).getArgNumber();
    // The last row index varies fastest already.
    if (*lanes.count == together && position + 1 == rows.getIndices().size())
      continue;
    if (llvm::any_of(loads, has) && llvm::any_of(loads, hasNot) &&
        asConstant(extent(rows.getExprs()[position])) != 1) {
      flat.sharing = position;
      flat.together = together;
      return;
    }
  }
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

void KernelLowering::lowerFlat(kernel::RowsOp rows) {
  Value wideRows;
  for (auto &[op, lanes] : flat.lanes)
    wideRows = both(wideRows, both(lanes.full, lanes.aligned));
  auto run = [&](bool isWide) {
    llvm::SaveAndRestore saved(checksOnce, isWide);
    used = isWide ? flat : Flat();
    used.isOnly = flat.isOnly;
    for (auto &[op, lanes] : flat.lanes)
      used.lanes.try_emplace(op);
    runFlat(rows);
    return SmallVector<Value>();
  };
  if (wideRows)
    branch(wideRows, {}, [&] { return run(true); }, [&] { return run(false); });
  else
    run(true);
}

void KernelLowering::runFlat(kernel::RowsOp rows) {
  auto indices = rows.getIndices();
  chunksOfRow = nullptr;
  rows.walk([&](kernel::ElementsOp op) {
    Value chunks = op.getIndices().empty() ? number(1) : countChunks(op, used.lanes[op]);
    if (!chunksOfRow)
      chunksOfRow = chunks;
    else if (chunksOfRow != chunks && asConstant(chunksOfRow) && asConstant(chunks))
      chunksOfRow = number(std::max(*asConstant(chunksOfRow), *asConstant(chunks)));
    else if (chunksOfRow != chunks)
      chunksOfRow = LLVM::SMaxOp::create(b, loc, chunksOfRow, chunks);
  });
  if (!chunksOfRow)
    return;
  // From the slowest to the fastest: row indices, and digits of the chunk's number.
  struct Digit {
    Value size;
    std::optional<unsigned> row;
  };
  SmallVector<Digit> digits;
  for (auto [i, expr] : llvm::enumerate(rows.getExprs()))
    if (i != used.sharing)
      digits.push_back({extent(expr), i});
  digits.push_back({quotient(chunksOfRow, number(used.together)), std::nullopt});
  if (used.sharing) {
    digits.push_back({extent(rows.getExprs()[*used.sharing]), *used.sharing});
    digits.push_back({number(used.together), std::nullopt});
  }
  Value count = constant(1);
  for (const Digit &digit : digits)
    count = mul(count, wide(digit.size));
  Value block = wide(NVVM::BlockIdXOp::create(b, loc, b.getI32Type()));
  Value blocks = wide(NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  Value threads = constant(launch.threads);
  auto lowerChunkOf = [&](Value linear) {
    Value chunk = number(0);
    for (unsigned i = digits.size(); i-- > 0;) {
      const Digit &digit = digits[i];
      Value size = wide(digit.size);
      Value value = toWidth(i ? remainder(linear, size) : linear, 32);
      if (i)
        linear = quotient(linear, size);
      if (digit.row)
        mapIndex(indices[*digit.row], value, extent(rows.getExprs()[*digit.row]));
      else
        chunk = i + 1 < digits.size() ? add(mul(value, number(used.together)), chunk) : value;
    }
    chunkOfRow = chunk;
    lowerBody(rows.getBody().front());
    chunkOfRow = nullptr;
    return SmallVector<Value>();
  };
  emitLoop(block, ceilDiv(count, threads), blocks, {}, [&](Value item, ValueRange) {
    Value linear = add(mul(item, threads), wide(thread));
    branch(less(linear, count), {}, [&] { return lowerChunkOf(linear); }, nullptr);
    return SmallVector<Value>();
  });
}
