//===- GroupedExperts.cpp - Kernels of experts for many tokens ------------===//
//
// A matmul for the rows of each expert, whose number only the device knows: the grid is that of the
// largest number, and blocks without rows end. A warp computes a tile on tensor cores, with
// operands loaded straight from memory into fragments, 16 bytes at a time.
//
// Operands are TF32 (mma.m16n8k8), with 11 bits of a significand. Weights of 16 bits are exact. f32
// is split into two parts, of which the product of the low parts is omitted ("3xTF32" of CUTLASS):
// so sums have the accuracy and the range of f32. Tensor cores truncate sums, so only 32 products
// are added there. The columns of k are permuted, equally in both operands: lane 4 g + t has
// columns 8 t to 8 t + 7 of 32, of which a fragment has two.
//
//===----------------------------------------------------------------------===//

#include "ExpertEmitter.h"
#include "Threads.h"

#include "tpc/Dialect/Arithmetic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::experts;
using ::tpc::gemv::kThreads, ::tpc::gemv::kWarp, ::tpc::gemv::kWarps;

/// Rows of A and columns of B of a fragment.
static constexpr int64_t kRowTiles = kTileRows / kMmaRows,
                         kColumnTiles = kTileColumns / kMmaColumns;
/// Distance of rows of a tile in shared memory.
static constexpr int64_t kSharedRow = kTileColumns + 1;
static constexpr int64_t kStepElements = 4 * kLaneElements;

//===----------------------------------------------------------------------===//
// Rows of experts
//===----------------------------------------------------------------------===//

void ExpertEmitter::emitRows() {
  Value rows, places, counts;
  begin("tpc_experts_rows", {&routing, &rows, &places, &counts}, {&tokens, &experts, &all, &first});
  Type integer = b.getI32Type();
  branch(less(globalWarp, experts), [&] {
    Value start = mul(wide(globalWarp), wide(tokens));
    Value count = loop(i32(0), tokens, i32(kWarp), {i32(0)}, [&](Value from, ValueRange now) {
      Value token = add(from, lane);
      Value bit = branch(
          less(token, tokens), {integer},
          [&] {
            Value isOne = isSelected(routingOf(token, globalWarp));
            return Values{select(isOne, arith::ShLIOp::create(b, loc, i32(1), lane), i32(0))};
          },
          [&] { return Values{i32(0)}; })[0];
      Value bits = bit; // of all lanes
      for (int32_t distance = kWarp / 2; distance >= 1; distance /= 2)
        bits = arith::OrIOp::create(b, loc, bits, createShuffle(b, loc, bits, distance));
      Value lower = sub(arith::ShLIOp::create(b, loc, i32(1), lane), i32(1));
      auto countBits = [&](Value x) -> Value { return LLVM::CtPopOp::create(b, loc, integer, x); };
      Value place = add(now[0], countBits(arith::AndIOp::create(b, loc, bits, lower)));
      branch(compare(Predicate::ne, bit, i32(0)), [&] {
        storeMany(at(rows, integer, add(start, wide(place))), {token});
        storeMany(at(places, integer, add(start, wide(token))), {place});
      });
      return Values{add(now[0], countBits(bits))};
    })[0];
    branch(compare(Predicate::eq, lane, i32(0)),
           [&] { storeMany(at(counts, integer, wide(globalWarp)), {count}); });
  });
  endKernel();
}

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

ExpertEmitter::Values ExpertEmitter::loadChunk(Value row, int32_t type, Value chunk, Value exists) {
  const int64_t width = ::tpc::gemv::getVector(type);
  Type words = VectorType::get(4, b.getI32Type());
  Value from = at(row, getType(type), mul(wide(chunk), kLaneElements));
  auto loadAll = [&] {
    Values loaded;
    for (int64_t i = 0; i < kLaneElements; i += width)
      loaded.push_back(loadWords(at(from, getType(type), i)));
    return loaded;
  };
  SmallVector<Type> types(kLaneElements / width, words);
  Values loaded = exists ? branch(exists, types, loadAll,
                                  [&] {
                                    Value zeros = LLVM::ZeroOp::create(b, loc, words);
                                    return Values(types.size(), zeros);
                                  })
                         : loadAll();
  Values values;
  for (Value word : loaded)
    llvm::append_range(values, unpack(word, type));
  return values;
}

namespace {
/// Parts of f32 values as TF32, in registers.
struct Parts {
  SmallVector<Value> high, low;
};
} // namespace

ExpertEmitter::Values ExpertEmitter::multiplyTile(ArrayRef<Values> rows, ArrayRef<Values> columns,
                                                  ValueRange sums) {
  Type integer = b.getI32Type();
  auto toBits = [&](Value x) -> Value { return arith::BitcastOp::create(b, loc, integer, x); };
  auto truncate = [&](Value x) -> Value {
    return arith::AndIOp::create(b, loc, toBits(x), i32(int32_t(0xffffe000)));
  };
  auto splitAll = [&](ArrayRef<Values> all) {
    SmallVector<Parts> parts;
    for (const Values &values : all) {
      Parts &own = parts.emplace_back();
      for (Value x : values) {
        Value high = truncate(x), whole = number(high);
        own.high.push_back(high);
        // The rest of an infinity is 0, not NaN.
        own.low.push_back(truncate(select(equals(whole, x), f32(0), fsub(x, whole))));
      }
    }
    return parts;
  };
  SmallVector<Parts> as = splitAll(rows), bs;
  bool isExact = dtype != TPC_F32;
  if (isExact)
    for (const Values &values : columns)
      llvm::append_range(bs.emplace_back().high, llvm::map_range(values, toBits));
  else
    bs = splitAll(columns);

  Values after;
  for (int64_t m = 0; m < kRowTiles; ++m)
    for (int64_t n = 0; n < kColumnTiles; ++n) {
      Values sum(4, f32(0));
      for (int64_t k = 0; k < kLaneElements; k += 2) {
        auto getA = [&](SmallVector<Value> Parts::*part) {
          const SmallVector<Value> &upper = as[2 * m].*part, &lower = as[2 * m + 1].*part;
          return Values{upper[k], lower[k], upper[k + 1], lower[k + 1]};
        };
        auto getB = [&](SmallVector<Value> Parts::*part) {
          return Values{(bs[n].*part)[k], (bs[n].*part)[k + 1]};
        };
        sum = multiplyTf32(getA(&Parts::low), getB(&Parts::high), sum);
        if (!isExact)
          sum = multiplyTf32(getA(&Parts::high), getB(&Parts::low), sum);
        sum = multiplyTf32(getA(&Parts::high), getB(&Parts::high), sum);
      }
      for (auto [i, part] : llvm::enumerate(sum))
        after.push_back(fadd(sums[after.size()], part));
    }
  return after;
}

Value ExpertEmitter::getTiles() {
  constexpr llvm::StringLiteral name = "tpc_experts_tiles";
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  if (!module.lookupSymbol(name)) {
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    auto array = LLVM::LLVMArrayType::get(b.getF32Type(), kWarps * kTileRows * kSharedRow);
    LLVM::GlobalOp::create(outside, loc, array, /*isConstant=*/false, LLVM::Linkage::Internal, name,
                           Attribute(), kChunkBytes, space);
  }
  return LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), name);
}

void ExpertEmitter::emitGrouped() {
  Value x, rows, counts, up, upBias, gate, gateBias, out, k, n, alpha, beta, limit, activation;
  begin("tpc_experts_grouped_" + getTypeName(dtype),
        {&x, &rows, &counts, &up, &upBias, &gate, &gateBias, &out},
        {&tokens, &k, &n, &alpha, &beta, &limit, &activation});
  Type f = b.getF32Type();
  Value isGated = isSet(gate);
  Value columns = select(isGated, i32(kTileColumns / 2), i32(kTileColumns)); // of a warp
  Value rowBlocks = ceilDiv(tokens, kTileRows);
  Value columnBlocks = div(sub(add(n, mul(columns, kWarps)), i32(1)), mul(columns, kWarps));
  Value rest = div(block, rowBlocks), warp = div(thread, kWarp);
  Value firstRow = mul(rem(block, rowBlocks), kTileRows), expert = div(rest, columnBlocks);
  Value firstColumn = mul(add(mul(rem(rest, columnBlocks), kWarps), warp), columns);
  Value count = loadInteger(counts, wide(expert));
  Value start = mul(wide(expert), wide(tokens)), weights = mul(wide(expert), wide(n));
  Value tiles = at(getTiles(), f, mul(warp, kTileRows * kSharedRow));

  branch(less(firstRow, count), [&] {
    branch(less(firstColumn, n), [&] {
      // Rows and columns that do not exist are clamped, and not stored.
      Value group = div(lane, 4), chunkOfStep = rem(lane, 4);
      Values xRows, wRows;
      for (int64_t i = 0; i < kTileRows / kMmaColumns; ++i) {
        Value row = min(add(add(firstRow, group), i * kMmaColumns), sub(count, i32(1)));
        Value at64 = add(start, wide(row));
        Value from = branch(
            isSet(rows), {b.getI64Type()}, [&] { return Values{wide(loadInteger(rows, at64))}; },
            [&] { return Values{at64}; })[0];
        xRows.push_back(at(x, f, mul(from, wide(k))));
      }
      for (int64_t i = 0; i < kColumnTiles; ++i) {
        bool isFirst = i < kColumnTiles / 2;
        Value matrix = isFirst ? select(isGated, gate, up) : up;
        Value tile = select(isGated, i32(i % (kColumnTiles / 2)), i32(i));
        Value column = add(add(firstColumn, group), mul(tile, kMmaColumns));
        Value row = add(weights, wide(min(column, sub(n, i32(1)))));
        wRows.push_back(at(matrix, element, mul(row, wide(k))));
      }
      auto multiplyStep = [&](Value chunk, Value exists, ValueRange sums) {
        SmallVector<Values> ws, xs;
        for (Value row : wRows)
          ws.push_back(loadChunk(row, dtype, chunk, exists));
        for (Value row : xRows)
          xs.push_back(loadChunk(row, TPC_F32, chunk, exists));
        return multiplyTile(xs, ws, sums);
      };
      Values zeros(kRowTiles * kColumnTiles * 4, f32(0));
      SmallVector<Type> types(zeros.size(), f);
      Value chunks = div(k, kLaneElements), wholeChunks = mul(div(k, kStepElements), 4);
      Values sums = loop(i32(0), wholeChunks, i32(4), zeros, [&](Value from, ValueRange now) {
        return multiplyStep(add(from, chunkOfStep), {}, now);
      });
      sums = branch(
          less(wholeChunks, chunks), types,
          [&] {
            Value chunk = add(wholeChunks, chunkOfStep);
            return multiplyStep(chunk, less(chunk, chunks), sums);
          },
          [&] { return sums; });

      // Through shared memory, so that a lane computes one element after the other.
      for (int64_t m = 0; m < kRowTiles; ++m)
        for (int64_t c = 0; c < kColumnTiles; ++c)
          for (int64_t i = 0; i < 4; ++i) {
            Value row = add(group, m * kMmaRows + i / 2 * 8);
            Value column = add(mul(chunkOfStep, 2), c * kMmaColumns + i % 2);
            storeMany(at(tiles, f, add(mul(row, kSharedRow), column)),
                      {sums[(m * kColumnTiles + c) * 4 + i]});
          }
    });
    barrier();
    loop(lane, mul(columns, kTileRows), i32(kWarp), [&](Value index) {
      Value own = div(index, columns), place = rem(index, columns);
      Value row = add(firstRow, own), column = add(firstColumn, place);
      branch(both(less(row, count), less(column, n)), [&] {
        Value sum = at(tiles, f, add(mul(own, kSharedRow), place));
        Value bias = add(weights, wide(column));
        Value result = choose(
            isGated,
            [&] {
              Value u = addBias(upBias, bias, load(at(sum, f, kTileColumns / 2), f));
              Value v = addBias(gateBias, bias, load(sum, f)), cut = number(limit);
              v = activate(clamp(v, cut, false), number(alpha), activation);
              return fmul(v, fadd(clamp(u, cut, true), number(beta)));
            },
            [&] {
              return activate(addBias(upBias, bias, load(sum, f)), number(alpha), activation);
            });
        Value to = add(mul(add(start, wide(row)), wide(n)), wide(column));
        storeMany(at(out, f, to), {result});
      });
    });
  });
  endKernel();
}

//===----------------------------------------------------------------------===//
// Sums of experts
//===----------------------------------------------------------------------===//

void ExpertEmitter::emitCombine() {
  Value y, places, out, outputs, isAdded;
  begin("tpc_experts_combine", {&y, &routing, &places, &out},
        {&tokens, &experts, &all, &first, &outputs, &isAdded});
  Type f = b.getF32Type();
  Value index = add(mul(wide(block), kThreads), wide(thread));
  branch(less(index, mul(wide(tokens), wide(outputs))), [&] {
    Value token = narrow(div(index, wide(outputs))), output = rem(index, wide(outputs));
    Value before = choose(
        compare(Predicate::ne, isAdded, i32(0)), [&] { return loadFloat(out, index); },
        [&] { return f32(0); });
    Value total = loop(i32(0), experts, i32(1), {before}, [&](Value expert, ValueRange now) {
      Value weight = routingOf(token, expert), start = mul(wide(expert), wide(tokens));
      return Values{choose(
          isSelected(weight),
          [&] {
            Value row = add(start, wide(loadInteger(places, add(start, wide(token)))));
            return fma(weight, loadFloat(y, add(mul(row, wide(outputs)), output)), now[0]);
          },
          [&] { return Value(now[0]); })};
    })[0];
    storeMany(at(out, f, index), {total});
  });
  endKernel();
}
