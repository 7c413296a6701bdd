//===- Folds.cpp - Folds by groups of threads -----------------------------===//
//
// Each thread first combines the terms of its chunks, separately for each lane and in ascending
// order, and then its lanes in a binary tree. Then the threads of a warp exchange values with
// threads at distances 16, 8, 4, 2 and 1 (a butterfly), so that all threads have the result. If the
// group is a block, all threads then combine the results of all warps in the same order.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "Threads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

Value KernelLowering::lowerFold(kernel::FoldOp op) {
  bool hasSpace = !op.getExprs().empty();
  return isOfRow(op) && hasSpace ? foldTogether(op) : foldInOrder(op);
}

Value KernelLowering::foldTogether(kernel::FoldOp op) {
  SmallVector<Value> partial;
  if (isInRegisters(op)) {
    partial = foldInRegisters(op);
  } else {
    SmallVector<Value> sizes = extents(op.getExprs());
    Lanes lanes = findLanes(op.getBody().front(), op.getIndices().back(), sizes.back());
    launch.elementsPerThread = std::max(launch.elementsPerThread, lanes.width);
    partial = foldLoops(op, lanes);
  }
  auto combine = [&](Value x, Value y) {
    return kernel::FoldOp::combine(b, loc, op.getKind(), x, y);
  };
  for (unsigned half = partial.size() / 2; half; half /= 2)
    for (unsigned i = 0; i < half; ++i)
      partial[i] = combine(partial[i], partial[i + half]);
  Value result = partial[0];
  for (int32_t distance = kWarp / 2; distance; distance /= 2)
    result = combine(result, shuffle(result, distance));
  if (isBlock == true)
    return exchange(op, result);
  if (isBlock == false)
    return result;
  return branch(
      isEqual(groupSize, number(launch.threads)), op.getType(),
      [&] { return SmallVector<Value>{exchange(op, result)}; },
      [&] { return SmallVector<Value>{result}; })[0];
}

/// Folds rows that are not in registers. If some chunk is not full, the row is processed element by
/// element. In full chunks, each thread and lane has the same terms for any width of loads.
SmallVector<Value> KernelLowering::foldLoops(kernel::FoldOp op, Lanes lanes) {
  SmallVector<Value> sizes = extents(op.getExprs());
  Value first = arith::ConstantOp::create(b, loc, op.getInit());
  SmallVector<Type> types(lanes.width, op.getType());
  auto run = [&](unsigned width, bool atOnce) {
    SmallVector<Value> init(width, first);
    SmallVector<Value> partial = loops(
        ArrayRef(sizes).drop_back(), op.getIndices().drop_back(), init,
        [&](ValueRange before) { return foldChunks(op, before, sizes.back(), width, atOnce); });
    partial.resize(lanes.width, first);
    return partial;
  };
  if (lanes.width == 1)
    return run(1, false);
  auto full = [&] {
    if (!mayBeWide)
      return run(lanes.width, false);
    return branch(
        lanes.aligned, types, [&] { return run(lanes.width, true); },
        [&] { return run(lanes.width, false); });
  };
  return lanes.full ? branch(lanes.full, types, full, [&] { return run(1, false); }) : full();
}

SmallVector<Value> KernelLowering::foldTerms(kernel::FoldOp op, ValueRange before, Value begin,
                                             Value size, unsigned lanes, bool atOnce) {
  Block &body = op.getBody().front();
  auto combine = [&](Value x, Value y) {
    return kernel::FoldOp::combine(b, loc, op.getKind(), x, y);
  };
  SmallVector<Value> next;
  if (atOnce)
    lowerLanes(body, op.getIndices().back(), begin, size, lanes, true);
  for (unsigned i = 0; i < lanes; ++i) {
    if (!atOnce)
      lowerLanes(body, op.getIndices().back(), add(begin, number(i)), size, 1, false);
    next.push_back(combine(before[i], getLane(op.getTerm(), atOnce ? i : 0)));
  }
  return next;
}

SmallVector<Value> KernelLowering::foldChunks(kernel::FoldOp op, ValueRange init, Value size,
                                              unsigned lanes, bool atOnce) {
  Value chunks = quotient(size, number(lanes));
  return emitLoop(inGroup, chunks, groupSize, init, [&](Value chunk, ValueRange before) {
    return foldTerms(op, before, mul(chunk, number(lanes)), size, lanes, atOnce);
  });
}

/// Returns the value of the thread whose index is that of this thread XOR `distance`.
Value KernelLowering::shuffle(Value value, int32_t distance) {
  Type type = value.getType();
  unsigned bits = type.getIntOrFloatBitWidth();
  auto shuffleWord = [&](Value x) { return createShuffle(b, loc, x, distance); };
  if (type.isF32() || type.isInteger(32))
    return shuffleWord(value);
  Type integer = b.getIntegerType(bits), i32 = b.getI32Type();
  Value x =
      isa<FloatType>(type) ? LLVM::BitcastOp::create(b, loc, integer, value).getResult() : value;
  if (bits < 32) {
    x = LLVM::TruncOp::create(b, loc, integer, shuffleWord(LLVM::ZExtOp::create(b, loc, i32, x)));
  } else {
    Value half = constant(32);
    Value low = shuffleWord(LLVM::TruncOp::create(b, loc, i32, x));
    Value high =
        shuffleWord(LLVM::TruncOp::create(b, loc, i32, LLVM::LShrOp::create(b, loc, x, half)));
    low = LLVM::ZExtOp::create(b, loc, integer, low);
    high = LLVM::ShlOp::create(b, loc, LLVM::ZExtOp::create(b, loc, integer, high), half);
    x = LLVM::OrOp::create(b, loc, low, high);
  }
  return isa<FloatType>(type) ? LLVM::BitcastOp::create(b, loc, type, x).getResult() : x;
}

/// Maximum number of warps whose results each thread reads itself.
static constexpr unsigned kMaxWarpsRead = 8;

/// Each fold has its own shared memory: other threads may still read the result of the previous
/// fold.
Value KernelLowering::exchange(kernel::FoldOp op, Value partial) {
  Type type = op.getType(), memory = getMemoryType(type);
  unsigned warps = launch.threads / kWarp;
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  std::string &name = sharedOf[op];
  if (name.empty()) {
    name = (source.getName() + "_shared" + Twine(launch.sharedBytes)).str();
    launch.sharedBytes += llvm::alignTo(warps * (memory.getIntOrFloatBitWidth() / 8), 16);
    OpBuilder outside(target);
    // Explicit, because LLVM assumes this alignment without writing it into the PTX.
    LLVM::GlobalOp::create(outside, loc, LLVM::LLVMArrayType::get(memory, warps),
                           /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                           /*alignment=*/16, space);
  }
  Value shared =
      LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), name);
  auto slot = [&](Value i) { return address(shared, type, i); };
  auto read = [&](Value i) -> Value {
    return fromMemory(LLVM::LoadOp::create(b, loc, memory, slot(i)), type);
  };
  auto combine = [&](Value x, Value y) {
    return kernel::FoldOp::combine(b, loc, op.getKind(), x, y);
  };
  Value inWarp = LLVM::AndOp::create(b, loc, thread, number(kWarp - 1));
  branch(
      isEqual(inWarp, number(0)), {},
      [&] {
        Value warp = LLVM::LShrOp::create(b, loc, thread, number(llvm::ConstantLog2<kWarp>()));
        LLVM::StoreOp::create(b, loc, toMemory(partial), slot(warp));
        return SmallVector<Value>();
      },
      nullptr);
  NVVM::BarrierOp::create(b, loc);
  if (warps > kMaxWarpsRead) {
    // Each lane reads the result of one warp.
    Value identity = arith::ConstantOp::create(b, loc, op.getIdentity());
    Value result = branch(
        less(inWarp, number(warps)), type, [&] { return SmallVector<Value>{read(inWarp)}; },
        [&] { return SmallVector<Value>{identity}; })[0];
    for (int32_t distance = kWarp / 2; distance; distance /= 2)
      result = combine(result, shuffle(result, distance));
    return result;
  }
  SmallVector<Value> all;
  for (unsigned warp = 0; warp < warps; ++warp)
    all.push_back(read(number(warp)));
  while (all.size() > 1) {
    unsigned rest = (all.size() + 1) / 2;
    for (unsigned i = rest; i < all.size(); ++i)
      all[i - rest] = combine(all[i - rest], all[i]);
    all.resize(rest);
  }
  return all[0];
}
