//===- Tiles.cpp - Transpositions through shared memory -------------------===//
//
// Consecutive threads store consecutive elements. If these elements are in another dimension of an
// operand, the loads are not coalesced:
//
//   rows (%i) in [n]  elements (%j) in [m]     y[i, j] = f(x[j, i])
//
// Therefore a block computes a tile of 32 rows and 32 elements. First, consecutive threads load
// along %i and store to shared memory; then consecutive threads load from shared memory along %j.
// Rows of the tile are padded by one element to avoid bank conflicts in both directions.
//
// The value in the tile is the result of a load, or of the branch around the load. The last index
// of the load depends on one row index and on no index of elements; another of its indices depends
// on %j. Rows of fewer than 16 elements need no tile, because consecutive threads compute different
// rows.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "tpc/gpu.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

static constexpr int64_t kTile = TPC_GPU_TILE, kMinLength = 16;
static constexpr size_t kMaxTiledValues = 4;

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

/// Collects the indices that a value depends on.
static void collectIndices(Value value, llvm::SmallSetVector<Value, 4> &found) {
  if (isa<BlockArgument>(value)) {
    found.insert(value);
    return;
  }
  value.getDefiningOp()->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!isa<MemRefType>(operand.getType()) &&
          !value.getDefiningOp()->isProperAncestor(operand.getParentBlock()->getParentOp()))
        collectIndices(operand, found);
  });
}

/// Returns the number of the row index along which a load's addresses are adjacent; nothing if they
/// are adjacent along elements, or along no single index.
static std::optional<unsigned> findAcross(memref::LoadOp load, kernel::RowsOp rows,
                                          kernel::ElementsOp elements) {
  if (load.getIndices().size() < 2)
    return std::nullopt;
  llvm::SmallSetVector<Value, 4> along, before;
  collectIndices(load.getIndices().back(), along);
  for (Value index : load.getIndices().drop_back())
    collectIndices(index, before);
  auto isRow = [&](Value v) { return cast<BlockArgument>(v).getOwner()->getParentOp() == rows; };
  if (along.size() != 1 || !isRow(along[0]) || !before.contains(elements.getIndices().back()))
    return std::nullopt;
  return cast<BlockArgument>(along[0]).getArgNumber();
}

bool KernelLowering::findTiles() {
  kernel::RowsOp rows = source.getRows();
  for (Operation &op : rows.getBody().front()) {
    if (auto elements = dyn_cast<kernel::ElementsOp>(op)) {
      if (tiled)
        return tiled = nullptr, false;
      tiled = elements;
    } else if (!isMemoryEffectFree(&op) && !isa<memref::LoadOp>(op)) {
      return tiled = nullptr, false; // such as a check, which would run twice
    }
  }
  auto known = tiled && !tiled.getIndices().empty()
                   ? asConstant(extent(tiled.getExprs().back())).value_or(kMinLength)
                   : 0;
  std::optional<unsigned> across;
  if (known >= kMinLength)
    for (Operation &op : tiled.getBody().front().without_terminator())
      op.walk([&](memref::LoadOp load) {
        auto rowIndex = findAcross(load, rows, tiled);
        if (!rowIndex || op.getNumResults() != 1 || op.getResult(0).getType().isIndex() ||
            (across && across != rowIndex) || llvm::is_contained(tiledValues, &op))
          return;
        across = rowIndex;
        tiledValues.push_back(&op);
      });
  if (tiledValues.empty() || tiledValues.size() > kMaxTiledValues) {
    tiledValues.clear();
    return tiled = nullptr, false;
  }
  acrossRows = *across;
  return true;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Returns `last` and the ops of its block on which it depends, in order.
static SmallVector<Operation *> getSlice(Operation *last) {
  llvm::SmallDenseSet<Operation *> needed{last};
  for (Operation *op = last; op; op = op->getPrevNode())
    if (needed.contains(op))
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *from = operand.getDefiningOp();
              from && from->getBlock() == last->getBlock())
            needed.insert(from);
      });
  SmallVector<Operation *> slice;
  for (Operation &op : *last->getBlock())
    if (needed.contains(&op))
      slice.push_back(&op);
  return slice;
}

/// Returns the type of an element in a tile: at least 32 bits, so that each is in a bank of its
/// own.
static Type getTileElementType(Type type) {
  unsigned bits = std::max(type.getIntOrFloatBitWidth(), 32u);
  return IntegerType::get(type.getContext(), bits);
}

Value KernelLowering::makeTile(Type type) {
  constexpr int64_t elements = kTile * (kTile + 1);
  std::string name = (source.getName() + "_shared" + Twine(launch.sharedBytes)).str();
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  Type element = getTileElementType(type);
  launch.sharedBytes += llvm::alignTo(elements * (element.getIntOrFloatBitWidth() / 8), 16);
  OpBuilder outside(target);
  LLVM::GlobalOp::create(outside, loc, LLVM::LLVMArrayType::get(element, elements),
                         /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                         /*alignment=*/16, space);
  return LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), name);
}

void KernelLowering::lowerTiles(kernel::RowsOp rows) {
  SmallVector<Value> tiles;
  for (Operation *tiledValue : tiledValues)
    tiles.push_back(makeTile(tiledValue->getResult(0).getType()));
  // All indices except the two of the tile.
  SmallVector<std::pair<Value, SymExpr>> others;
  for (auto [i, index] : llvm::enumerate(rows.getIndices()))
    if (i != acrossRows)
      others.push_back({index, rows.getExprs()[i]});
  SmallVector<SymExpr> space = tiled.getExprs();
  for (auto [index, expr] : llvm::zip_equal(tiled.getIndices(), space))
    if (index != tiled.getIndices().back())
      others.push_back({index, expr});
  Value row = rows.getIndices()[acrossRows], column = tiled.getIndices().back();
  Value numRows = extent(rows.getExprs()[acrossRows]), numColumns = extent(space.back());
  Value rowTiles = wide(ceilDiv(numRows, number(kTile)));
  Value columnTiles = wide(ceilDiv(numColumns, number(kTile)));
  Value items = mul(rowTiles, columnTiles);
  for (auto &[index, expr] : others)
    items = mul(items, sizes->expr(expr));
  Value inWarp = LLVM::AndOp::create(b, loc, thread, number(kWarp - 1));
  Value warp = LLVM::LShrOp::create(b, loc, thread, number(llvm::ConstantLog2<kWarp>()));
  constexpr int32_t warps = kThreads / kWarp;

  Value block = wide(NVVM::BlockIdXOp::create(b, loc, b.getI32Type()));
  Value blocks = wide(NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  emitLoop(block, items, blocks, {}, [&](Value item, ValueRange) {
    auto next = [&](Value size) {
      Value digit = remainder(item, size);
      item = quotient(item, size);
      return toWidth(digit, 32);
    };
    Value firstColumn = mul(next(columnTiles), number(kTile));
    Value firstRow = mul(next(rowTiles), number(kTile));
    for (auto &[index, expr] : llvm::reverse(others))
      mapIndex(index, next(sizes->expr(expr)), extent(expr));
    // Emits `body` for one element. Each thread computes the values of a row that it needs.
    auto at = [&](Value inRow, Value inColumn, function_ref<void()> body) {
      Value i = add(firstRow, inRow), j = add(firstColumn, inColumn);
      auto then = [&] {
        mapIndex(row, i, numRows);
        mapIndex(column, j, numColumns);
        for (Operation &op : rows.getBody().front())
          if (&op != tiled)
            lowerOp(&op);
        body();
        return SmallVector<Value>();
      };
      branch(both(less(i, numRows), less(j, numColumns)), {}, then, nullptr);
    };
    auto addressOf = [&](Value tile, Operation *tiledValue, Value inColumn, Value inRow) {
      return address(tile, getTileElementType(tiledValue->getResult(0).getType()),
                     add(mul(inColumn, number(kTile + 1)), inRow));
    };
    // Emits `body` for each line of the tile that this warp computes.
    auto forLines = [&](function_ref<void(Value)> body) {
      for (int32_t first = 0; first < kTile; first += warps)
        body(add(warp, number(first)));
    };
    forLines([&](Value line) {
      at(inWarp, line, [&] {
        for (auto [tiledValue, tile] : llvm::zip_equal(tiledValues, tiles)) {
          for (Operation *op : getSlice(tiledValue))
            lowerOp(op);
          LLVM::StoreOp::create(b, loc, toMemory(map.lookup(tiledValue->getResult(0))),
                                addressOf(tile, tiledValue, line, inWarp));
        }
      });
    });
    NVVM::BarrierOp::create(b, loc);
    forLines([&](Value line) {
      at(line, inWarp, [&] {
        for (auto [tiledValue, tile] : llvm::zip_equal(tiledValues, tiles)) {
          Type type = tiledValue->getResult(0).getType();
          Value read = LLVM::LoadOp::create(b, loc, getMemoryType(type),
                                            addressOf(tile, tiledValue, inWarp, line));
          map.map(tiledValue->getResult(0), fromMemory(read, type));
        }
        for (Operation &op : tiled.getBody().front())
          if (!llvm::is_contained(tiledValues, &op))
            lowerOp(&op);
      });
    });
    // The next tile overwrites the memory that this one reads.
    NVVM::BarrierOp::create(b, loc);
    return SmallVector<Value>();
  });
}
