//===- Folds.cpp - Folds that a group of threads shares ---------------------===//
//
// Each thread combines the terms of its chunks, lane by lane and in ascending order, then its lanes
// by halves; then threads of a warp exchange with those that are 16, 8, 4, 2, 1 apart, so that all
// have the result; then, where the group is a block, all read all warps' results in one order.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

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
  SmallVector<Value> sizes = extents(op.getExprs());
  auto indices = op.getIndices();
  Lanes lanes = findLanes(op.getBody().front(), indices.back(), sizes.back());
  launch.elementsPerThread = std::max(launch.elementsPerThread, lanes.width);
  Value first = arith::ConstantOp::create(b, loc, op.getInit());
  SmallVector<Value> init(lanes.width, first);
  SmallVector<Type> types(lanes.width, op.getType());
  auto run = [&](bool wideAccess) {
    return loops(ArrayRef(sizes).drop_back(), indices.drop_back(), init, [&](ValueRange before) {
      return foldChunks(op, before, sizes.back(), lanes.width, wideAccess);
    });
  };
  SmallVector<Value> partial =
      lanes.width == 1
          ? run(false)
          : branch(lanes.aligned, types, [&] { return run(true); }, [&] { return run(false); });
  auto combine = [&](Value x, Value y) {
    return kernel::FoldOp::combine(b, loc, op.getKind(), x, y);
  };
  for (unsigned half = lanes.width / 2; half; half /= 2)
    for (unsigned i = 0; i < half; ++i)
      partial[i] = combine(partial[i], partial[i + half]);
  Value result = partial[0];
  for (int32_t distance = kWarp / 2; distance; distance /= 2)
    result = combine(result, shuffle(result, distance));
  if (auto bits = asConstant(groupBits))
    return (1 << *bits) == kThreads ? exchange(op, result) : result;
  return branch(
      isEqual(groupSize, number(kThreads)), op.getType(),
      [&] { return SmallVector<Value>{exchange(op, result)}; },
      [&] { return SmallVector<Value>{result}; })[0];
}

/// The same terms for the same thread and lane, whether they are accessed at once or one by one.
SmallVector<Value> KernelLowering::foldChunks(kernel::FoldOp op, ValueRange init, Value size,
                                              unsigned lanes, bool atOnce) {
  Block &body = op.getBody().front();
  Value last = op.getIndices().back();
  auto combine = [&](Value x, Value y) {
    return kernel::FoldOp::combine(b, loc, op.getKind(), x, y);
  };
  auto one = [&](Value index, Value before) {
    lowerLanes(body, last, index, size, 1, false);
    return combine(before, map.lookup(op.getTerm()));
  };
  if (lanes == 1)
    return emitLoop(inGroup, size, groupSize, init, [&](Value index, ValueRange before) {
      return SmallVector<Value>{one(index, before[0])};
    });
  // If it is at once, there is no chunk that is not full.
  Value chunks = parts(size, number(lanes));
  return emitLoop(inGroup, chunks, groupSize, init, [&](Value chunk, ValueRange before) {
    Value begin = mul(chunk, number(lanes));
    SmallVector<Value> next;
    if (atOnce) {
      lowerLanes(body, last, begin, size, lanes, true);
      for (unsigned lane = 0; lane < lanes; ++lane)
        next.push_back(combine(before[lane], getLane(op.getTerm(), lane)));
      return next;
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Value index = add(begin, number(lane));
      next.push_back(branch(
          less(index, size), op.getType(),
          [&] { return SmallVector<Value>{one(index, before[lane])}; },
          [&] { return SmallVector<Value>{before[lane]}; })[0]);
    }
    return next;
  });
}

/// The value of the thread whose number differs in this bit.
Value KernelLowering::shuffle(Value value, int32_t distance) {
  Type type = value.getType();
  unsigned bits = type.getIntOrFloatBitWidth();
  auto one = [&](Value x) -> Value {
    return NVVM::ShflOp::create(b, loc, x.getType(), number(-1), x, number(distance),
                                number(kWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
  };
  if (type.isF32() || type.isInteger(32))
    return one(value);
  Type integer = b.getIntegerType(bits), i32 = b.getI32Type();
  Value x =
      isa<FloatType>(type) ? LLVM::BitcastOp::create(b, loc, integer, value).getResult() : value;
  if (bits < 32) {
    x = LLVM::TruncOp::create(b, loc, integer, one(LLVM::ZExtOp::create(b, loc, i32, x)));
  } else {
    Value half = constant(32);
    Value low = one(LLVM::TruncOp::create(b, loc, i32, x));
    Value high = one(LLVM::TruncOp::create(b, loc, i32, LLVM::LShrOp::create(b, loc, x, half)));
    low = LLVM::ZExtOp::create(b, loc, integer, low);
    high = LLVM::ShlOp::create(b, loc, LLVM::ZExtOp::create(b, loc, integer, high), half);
    x = LLVM::OrOp::create(b, loc, low, high);
  }
  return isa<FloatType>(type) ? LLVM::BitcastOp::create(b, loc, type, x).getResult() : x;
}

/// Each fold has memory of its own: what the one before left may still be read.
Value KernelLowering::exchange(kernel::FoldOp op, Value partial) {
  Type type = op.getType(), memory = getMemoryType(type);
  constexpr unsigned warps = kThreads / kWarp;
  std::string name = (source.getName() + "_shared" + Twine(launch.sharedBytes)).str();
  launch.sharedBytes += warps * (memory.getIntOrFloatBitWidth() / 8);
  OpBuilder outside(target);
  auto array = LLVM::LLVMArrayType::get(memory, warps);
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  LLVM::GlobalOp::create(outside, loc, array, /*isConstant=*/false, LLVM::Linkage::Internal, name,
                         Attribute(), /*alignment=*/0, space);
  Value shared =
      LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), name);
  auto place = [&](Value i) { return address(shared, type, i); };
  Value mask = number(kWarp - 1);
  Value isFirst = isEqual(LLVM::AndOp::create(b, loc, thread, mask), number(0));
  branch(
      isFirst, {},
      [&] {
        Value warp = LLVM::LShrOp::create(b, loc, thread, number(llvm::ConstantLog2<kWarp>()));
        LLVM::StoreOp::create(b, loc, toMemory(partial), place(warp));
        return SmallVector<Value>();
      },
      nullptr);
  NVVM::BarrierOp::create(b, loc);
  SmallVector<Value> all;
  for (unsigned warp = 0; warp < warps; ++warp)
    all.push_back(fromMemory(LLVM::LoadOp::create(b, loc, memory, place(number(warp))), type));
  for (unsigned half = warps / 2; half; half /= 2)
    for (unsigned i = 0; i < half; ++i)
      all[i] = kernel::FoldOp::combine(b, loc, op.getKind(), all[i], all[i + half]);
  return all[0];
}
