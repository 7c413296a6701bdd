//===- KernelLowering.cpp - Rows and thread groups of GPU kernels ---------===//

#include "KernelLowering.h"
#include "Threads.h"

#include "tpc/Conversion/Env/RuntimeAbi.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

static constexpr int64_t kLongRow = TPC_GPU_LONG_ROW;
/// Threads of a block that computes one row, and the maximum number of elements per thread. The
/// first sufficient entry is used: small blocks wait less at barriers, and few elements per thread
/// leave registers for operands that all rows share.
static constexpr std::pair<int64_t, int64_t> blocks[] = {{256, 8}, {512, 8}, {1024, 32}};
/// The same for lengths that are known only at run time.
static constexpr int64_t kThreadsOfUnknown = 512, kMaxChunksOfUnknown = 8;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Returns whether the op is computed once per row, by all threads of the group.
bool KernelLowering::isOfRow(Operation *op) const {
  return !op->getParentOfType<kernel::ElementsOp>() && !op->getParentOfType<kernel::FoldOp>();
}

static SymExpr getProduct(ArrayRef<SymExpr> sizes) {
  SymExpr all = 1;
  for (const SymExpr &size : sizes)
    all = all * size;
  return all;
}

/// Selects the kernel's shape, and which threads compute a row.
void KernelLowering::findGroup() {
  SmallVector<SymExpr> spaces;
  bool isCooperative = false;
  kernel::RowsOp rows = source.getRows();
  rows.walk([&](Operation *op) {
    if (isa<kernel::BarrierOp>(op))
      isCooperative = true;
    if (auto fold = dyn_cast<kernel::FoldOp>(op); fold && isOfRow(op)) {
      isCooperative = true;
      ++foldsOfRow;
      if (!fold.getExprs().empty())
        spaces.push_back(fold.getExprs().back());
    }
    if (auto elements = dyn_cast<kernel::ElementsOp>(op))
      spaces.push_back(getProduct(elements.getExprs()));
  });
  SymExpr longest = 1;
  for (const SymExpr &space : spaces)
    if (longest.isConstant(1))
      longest = space;
    else if (longest != space && !space.isConstant(1))
      longest = SymExpr::max(longest, space);
  launch.rows = getProduct(rows.getExprs());
  launch.elementsPerRow = longest;

  thread = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  if (isCooperative) {
    planCooperativeRows(longest);
    return;
  }
  if (findTiles()) {
    launch.shape = Shape::Tiles;
    return;
  }
  findFlat();
}

/// Splits the block into groups of 2^groupBits threads each.
void KernelLowering::splitBlock() {
  if (auto bits = asConstant(groupBits)) {
    groupSize = number(1 << *bits);
    numGroups = number(launch.threads >> *bits);
  } else {
    groupSize = LLVM::ShlOp::create(b, loc, number(1), groupBits);
    numGroups = LLVM::LShrOp::create(b, loc, number(launch.threads), groupBits);
  }
  Value mask = LLVM::SubOp::create(b, loc, groupSize, number(1));
  inGroup = LLVM::AndOp::create(b, loc, thread, mask);
  group = LLVM::LShrOp::create(b, loc, thread, groupBits);
}

/// Plans rows with folds or barriers: a warp or the block per row, and the values that threads keep
/// of the row.
void KernelLowering::planCooperativeRows(const SymExpr &longest) {
  constexpr int32_t warpBits = llvm::ConstantLog2<kWarp>(),
                    blockBits = llvm::ConstantLog2<kThreadsOfUnknown>();
  findPasses();
  Value size = extent(rowSize), length = extent(longest);
  SmallVector<std::pair<Block *, Value>> bodies;
  for (Operation *pass : passes)
    bodies.push_back({&pass->getRegion(0).front(), pass->getRegion(0).getArguments().back()});
  if (!passes.empty()) {
    rowLanes = findLanes(bodies, size);
    launch.elementsPerThread = rowLanes.width;
  }
  auto knownSize = asConstant(size), known = asConstant(length);
  // Number of chunks per thread if this many threads share the row.
  auto share = [&](int64_t threads) {
    return llvm::divideCeil(llvm::divideCeil(*knownSize, rowLanes.width), threads);
  };
  if (!known) {
    launch.shape = Shape::RowByLength;
    launch.threads = kThreadsOfUnknown;
    Value isLong = less(number(kLongRow), length);
    groupBits = LLVM::SelectOp::create(b, loc, isLong, number(blockBits), number(warpBits));
    splitBlock();
    if (knownSize || passes.empty())
      return;
    registerChunks = kMaxChunksOfUnknown / rowLanes.width;
    rowFits = less(size, number(kMaxChunksOfUnknown * kThreadsOfUnknown + 1));
  } else if (*known <= kLongRow) {
    launch.shape = Shape::WarpPerRow;
    isBlock = false;
    groupBits = number(warpBits);
    splitBlock();
    if (!passes.empty() && knownSize)
      registerChunks = share(kWarp);
  } else {
    launch.shape = Shape::BlockPerRow;
    isBlock = true;
    if (!passes.empty() && knownSize && rowSize == longest)
      for (auto [threads, maxElements] : blocks)
        if (int64_t chunks = share(threads); chunks * rowLanes.width <= maxElements) {
          registerChunks = chunks;
          int64_t needed = llvm::divideCeil(*knownSize, rowLanes.width * chunks);
          // The number of warps is even, because LLVM would load four elements for the results of
          // three warps.
          launch.threads = llvm::alignTo(needed, 2 * kWarp);
          break;
        }
    groupSize = number(launch.threads);
    numGroups = number(1);
    inGroup = thread;
    group = number(0);
  }
  if (registerChunks) {
    selectRegisterLoads(registerChunks * rowLanes.width);
    launch.registerElements = registerChunks * rowLanes.width;
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void KernelLowering::lowerRow(kernel::RowsOp rows, Value row) {
  SmallVector<SymExpr> exprs = rows.getExprs();
  auto indices = rows.getIndices();
  Value linear = row;
  for (unsigned i = indices.size(); i-- > 1;) {
    Value size = sizes->expr(exprs[i]);
    mapIndex(indices[i], toWidth(remainder(linear, size), 32), extent(exprs[i]));
    linear = quotient(linear, size);
  }
  if (!indices.empty())
    mapIndex(indices[0], toWidth(linear, 32), extent(exprs[0]));
  lowerBody(rows.getBody().front());
}

void KernelLowering::lowerRows(kernel::RowsOp rows) {
  SmallVector<Value> counts;
  for (const SymExpr &expr : rows.getExprs())
    counts.push_back(sizes->expr(expr));
  Value count = sizes->product(counts);
  Value block = wide(NVVM::BlockIdXOp::create(b, loc, b.getI32Type()));
  Value blocks = wide(NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  Value groups = wide(numGroups);
  Value items = ceilDiv(count, groups);
  emitLoop(block, items, blocks, {}, [&](Value item, ValueRange) {
    Value row = add(mul(item, groups), wide(group));
    auto body = [&] {
      lowerRow(rows, row);
      return SmallVector<Value>();
    };
    // With one group per block, `item` is a valid row.
    if (asConstant(numGroups) == 1)
      body();
    else
      branch(less(row, count), {}, body, nullptr);
    // The next row's fold writes to the memory that this row's fold reads, so a barrier is needed.
    // With several folds per row, the barrier of another fold is between the two.
    if (foldsOfRow == 1)
      ifBlock([&] { NVVM::BarrierOp::create(b, loc); });
    return SmallVector<Value>();
  });
}

/// Emits code for the case that a block computes the row.
void KernelLowering::ifBlock(function_ref<void()> then) {
  if (isBlock) {
    if (*isBlock)
      then();
    return;
  }
  branch(
      isEqual(groupSize, number(launch.threads)), {},
      [&] {
        then();
        return SmallVector<Value>();
      },
      nullptr);
}

void KernelLowering::lowerBarrier(kernel::BarrierOp) {
  auto block = [&] {
    NVVM::BarrierOp::create(b, loc);
    return SmallVector<Value>();
  };
  auto warp = [&] {
    NVVM::SyncWarpOp::create(b, loc, number(-1));
    return SmallVector<Value>();
  };
  if (registerRow && !needsBarriers)
    return;
  if (isBlock)
    *isBlock ? block() : warp();
  else
    branch(isEqual(groupSize, number(launch.threads)), {}, block, warp);
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Checks sizes that are known here; the launcher checks the others.
LogicalResult KernelLowering::checkExtents() {
  SmallVector<SymExpr> all = source.getExtents();
  for (Value memory : source.getBody().getArguments())
    llvm::append_range(all, source.getSizesOf(memory));
  for (const SymExpr &expr : all)
    if (auto known = asConstant(sizes->expr(expr)); known && !llvm::isInt<32>(*known))
      return source.emitError()
             << "a dimension of " << *known
             << " elements is too long for GPUs, whose kernels have indices of 32 bits; split it "
                "over more ranks (--megatron-shard)";
  return success();
}

FailureOr<Launch> KernelLowering::lower() {
  launch.name = source.getName();
  launch.operands = source.getBody().getNumArguments();
  for (const SymExpr &expr : source.getExtents())
    launch.extents.push_back(expr);
  target = createEntry(b, loc, source.getName(), 2 + source.getBody().getNumArguments());
  auto setAlignment = [&](unsigned argument, unsigned bytes) {
    target.setArgAttr(argument, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(bytes));
  };
  setAlignment(0, sizeof(int64_t));
  setAlignment(1, alignof(tpc_status));
  for (BlockArgument memory : source.getBody().getArguments()) {
    Type element = cast<MemRefType>(memory.getType()).getElementType();
    setAlignment(2 + memory.getArgNumber(), getMemoryType(element).getIntOrFloatBitWidth() / 8);
  }
  Block *entry = target.addEntryBlock(b);
  Block *body = b.createBlock(&target.getBody());
  b.setInsertionPointToStart(entry);
  auto branch = LLVM::BrOp::create(b, loc, body);
  b.setInsertionPoint(branch);
  createWait(b, loc);
  status = entry->getArgument(1);
  for (BlockArgument memory : source.getBody().getArguments())
    map.map(memory, entry->getArgument(2 + memory.getArgNumber()));
  sizes = std::make_unique<SizeEmitter>(b, loc, layout, entry->getArgument(0));

  b.setInsertionPointToStart(body);
  if (failed(checkExtents()))
    return failure();
  mergePasses();
  findGroup();
  setThreads(target, launch.threads);
  setMinBlocks(target,
               std::max(kRegisters / (getCeiling(launch.shape).registers * launch.threads), 1u));
  for (Operation &op : llvm::drop_end(source.getBody().front()))
    lowerOp(&op);
  if (tiled)
    lowerTiles(source.getRows());
  else if (launch.shape == Shape::Elements)
    lowerFlat(source.getRows());
  else
    lowerVersions(source.getRows());
  LLVM::ReturnOp::create(b, loc, ValueRange());
  return launch;
}
