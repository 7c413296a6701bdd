//===- Gemv.cpp - Matrix-vector kernels -----------------------------------===//
//
// The kernels compute x w for few rows of x. A thread reads w 16 bytes at a time, 8 accesses in
// flight, and has the next 8 in flight while it multiplies. w is not reused, so it never passes
// through shared memory; x is small and stays in the L1 cache. There is a kernel for each layout of
// w:
//
//   [k, n]   8 threads read 128 bytes of a row, and the 32 groups of a block read chunks of 8
//            adjacent rows in turn. A thread thus multiplies its columns with 8 adjacent elements
//            of each row of x. Sums are added by shuffles, then through shared memory in the order
//            of warps, then over the blocks that split k.
//   [n, k]   32 lanes read adjacent chunks of one or two rows. Sums are added by shuffles.
//
// Blocks that split k store partial sums and increment a counter. The block that increments it last
// adds all partial sums in the order of k. This is deterministic, needs no second launch, and runs
// on all architectures. A barrier, a fence of one thread, and its atomic update order the stores of
// a block before the loads of the last one; atom.inc wraps around, which resets the counter.
// The first accesses to w precede the wait for the previous kernel (tpc/dependent_launch.h).
//
//===----------------------------------------------------------------------===//

#include "GemvEmitter.h"
#include "Threads.h"

#include "tpc/dependent_launch.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::gemv;

std::string cuda::getName(const GemvVariant &variant) {
  return ("tpc_gemv_" + getTypeName(variant.element) + (variant.transposed ? "_nk_" : "_kn_") +
          (variant.fused ? "fused_" : "") + Twine(variant.m))
      .str();
}

GemvEmitter::GemvEmitter(ModuleOp module, const GemvVariant &variant)
    : ThreadEmitter(OpBuilder::atBlockEnd(module.getBody()), module.getLoc()), module(module),
      variant(variant), vector(getVector(variant.element)) {
  element = getType(variant.element);
}

Value GemvEmitter::addLanes(Value sum, int32_t high, int32_t low) {
  for (int32_t bit = high; bit >= low; bit /= 2)
    sum = fadd(sum, createShuffle(b, loc, sum, bit));
  return sum;
}

Value GemvEmitter::getShared(StringRef name, Type type, int64_t count) {
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  std::string symbol = cuda::getName(variant) + "_" + name.str();
  if (!module.lookupSymbol(symbol)) {
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    auto array = LLVM::LLVMArrayType::get(type, static_cast<unsigned>(count));
    LLVM::GlobalOp::create(outside, loc, array, /*isConstant=*/false, LLVM::Linkage::Internal,
                           symbol, Attribute(), kAccessBytes, space);
  }
  return LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space),
                                   symbol);
}

GemvEmitter::Values GemvEmitter::loadX(int64_t row, Value column, int64_t count) {
  Value from = variant.fused
                   ? at(staged, element, add(mul(rowStaged, row), sub(column, firstStaged)))
                   : at(x, element, add(mul(wide(k), row), wide(column)));
  Values values;
  for (int64_t i = 0; i < count; i += vector)
    llvm::append_range(values, unpack(loadWords(at(from, element, i))));
  return values;
}

//===----------------------------------------------------------------------===//
// [k, n]
//===----------------------------------------------------------------------===//

GemvEmitter::Values GemvEmitter::multiplyChunk(ValueRange words, Value chunk, ValueRange sums) {
  Values after(sums);
  Value row = mul(chunk, kRowsOfChunk);
  SmallVector<Values> xs;
  for (int64_t i = 0; i < variant.m; ++i)
    xs.push_back(loadX(i, row, kRowsOfChunk));
  for (auto [r, word] : llvm::enumerate(words))
    for (auto [column, value] : llvm::enumerate(unpack(word)))
      for (int64_t i = 0; i < variant.m; ++i) {
        Value &sum = after[i * vector + column];
        sum = fma(xs[i][r], value, sum);
      }
  return after;
}

void GemvEmitter::emitColumns() {
  Type f = b.getF32Type();
  const int64_t columns = getColumns(variant.element), results = variant.m * columns;
  Value ranges = ceilDiv(n, columns), range = rem(block, ranges), split = div(block, ranges);
  Value blocks = NVVM::GridDimXOp::create(b, loc, b.getI32Type());
  Value splits = div(blocks, ranges);
  Value group = div(thread, kThreadsOfRow), columnOfBlock = mul(rem(thread, kThreadsOfRow), vector);
  auto [column, hasColumns] = getColumn(range, columnOfBlock);
  Value begin = mul(split, chunksOfSplit);
  Value end = min(add(begin, chunksOfSplit), div(k, kRowsOfChunk));
  // Threads without columns have no chunks.
  Value first = select(hasColumns, add(begin, group), end);

  Value stride = wide(wRow);
  auto loadChunk = [&, column = column](Value chunk) {
    Value from = at(w, element, add(mul(wide(mul(chunk, kRowsOfChunk)), stride), wide(column)));
    Values words;
    for (int64_t r = 0; r < kRowsOfChunk; ++r)
      words.push_back(loadWords(at(from, element, mul(stride, r))));
    return words;
  };
  Values zeros(variant.m * vector, f32(0));
  SmallVector<Type> types(zeros.size(), f);
  SmallVector<Type> wordTypes(kRowsOfChunk, VectorType::get(4, b.getI32Type()));
  Values words = branch(
      less(first, end), wordTypes, [&] { return loadChunk(first); },
      [&] { return Values(kRowsOfChunk, LLVM::ZeroOp::create(b, loc, wordTypes[0])); });
  createDependency(b, loc, ::tpc::dependent_launch::kWait);
  if (variant.fused)
    stage(begin, end);
  Values sums = branch(
      less(first, end), types,
      [&] {
        Values state = words;
        state.push_back(first);
        llvm::append_range(state, zeros);
        Value step = i32(kRowsAtOnce);
        state = loop(add(first, kRowsAtOnce), end, step, state, [&](Value next, ValueRange now) {
          Values after = loadChunk(next);
          after.push_back(next);
          llvm::append_range(after, multiplyChunk(now.take_front(kRowsOfChunk), now[kRowsOfChunk],
                                                  now.drop_front(kRowsOfChunk + 1)));
          return after;
        });
        ValueRange last(state);
        return multiplyChunk(last.take_front(kRowsOfChunk), last[kRowsOfChunk],
                             last.drop_front(kRowsOfChunk + 1));
      },
      [&] { return zeros; });
  for (Value &sum : sums)
    sum = addLanes(sum, kWarp / 2, kThreadsOfRow);

  // Sums of warps: [warp][m][column].
  Value shared = getShared("sums", f, kWarps * results);
  branch(less(lane, i32(kThreadsOfRow)), [&] {
    Value to = at(shared, f, add(mul(warp, results), columnOfBlock));
    for (int64_t i = 0; i < variant.m; ++i)
      for (int64_t j = 0; j < vector; j += 4)
        storeMany(at(to, f, i * columns + j), ArrayRef(sums).slice(i * vector + j, 4));
  });
  barrier();
  // Each thread adds up one result. Excess threads repeat the first results, but do not store them.
  static_assert(kMaxRows * getColumns(TPC_BF16) <= kThreads);
  Value index = rem(thread, results);
  Value sum = load(at(shared, f, index), f);
  for (int64_t i = 1; i < kWarps; ++i)
    sum = fadd(sum, load(at(at(shared, f, index), f, i * results), f));
  Value row = div(index, columns);
  auto [outColumn, isColumn] = getColumn(range, rem(index, columns));
  Value exists = both(less(thread, i32(results)), isColumn);
  auto finish = [&, outColumn = outColumn](Value total) {
    auto storeSum = [&] { branch(exists, [&] { store(row, outColumn, total); }); };
    if (!variant.fused)
      return storeSum();
    branch(
        is(activation, TPC_EPILOGUE_NONE), {},
        [&] {
          storeSum();
          return Values();
        },
        [&] {
          storeActivated(range, index, total);
          return Values();
        });
  };
  branch(
      compare(Predicate::eq, splits, i32(1)), {},
      [&] {
        finish(sum);
        return Values();
      },
      [&] {
        joinSplits(range, ranges, splits, split, index, sum, finish);
        return Values();
      });
}

void GemvEmitter::joinSplits(Value range, Value ranges, Value splits, Value split, Value index,
                             Value sum, function_ref<void(Value)> finish) {
  Type f = b.getF32Type(), integer = b.getI32Type();
  constexpr llvm::StringLiteral device = "device";
  const int64_t results = variant.m * getColumns(variant.element);
  auto partial = [&](Value split) {
    Value first = mul(wide(add(mul(split, ranges), range)), results);
    return at(partials, f, add(first, wide(index)));
  };
  branch(less(thread, i32(results)), [&] { storeMany(partial(split), {sum}); });
  barrier();
  Value shared = getShared("last", integer, 1);
  Value isFirst = compare(Predicate::eq, thread, i32(0));
  branch(isFirst, [&] {
    auto fence = [&] { LLVM::FenceOp::create(b, loc, LLVM::AtomicOrdering::acq_rel, device); };
    fence();
    Value before = LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::uinc_wrap,
                                             at(counters, integer, range), sub(splits, i32(1)),
                                             LLVM::AtomicOrdering::monotonic, device);
    fence();
    storeMany(shared, {before});
  });
  barrier();
  Value before = load(shared, integer);
  branch(compare(Predicate::eq, before, sub(splits, i32(1))), [&] {
    // Several loads are in flight together; excess ones read the last partial sum.
    constexpr int64_t atOnce = 8;
    Value last = sub(splits, i32(1)), zero = f32(0);
    Value total = loop(i32(0), splits, i32(atOnce), zero, [&](Value first, ValueRange now) {
      Values loaded;
      for (int64_t i = 0; i < atOnce; ++i)
        loaded.push_back(load(partial(min(add(first, i), last)), f));
      Value total = fadd(now[0], loaded[0]);
      for (auto [i, value] : llvm::drop_begin(llvm::enumerate(loaded)))
        total = fadd(total, select(less(add(first, int64_t(i)), splits), value, zero));
      return Values{total};
    })[0];
    finish(total);
  });
}

//===----------------------------------------------------------------------===//
// [n, k]
//===----------------------------------------------------------------------===//

void GemvEmitter::emitRows() {
  Type f = b.getF32Type();
  const int64_t rows = getRowsOfWarp(variant.m), loads = kLoads / rows;
  Value first = mul(add(mul(block, kWarps), warp), rows);
  Value chunks = div(k, vector), lastRow = sub(n, i32(1)), batches = div(chunks, loads * kWarp);
  // The second row of a warp is clamped to the last row.
  Values starts;
  for (int64_t r = 0; r < rows; ++r)
    starts.push_back(at(w, element, mul(wide(min(add(first, r), lastRow)), wide(wRow))));
  auto loadOne = [&](Value chunk) {
    Values words;
    for (Value start : starts)
      words.push_back(loadWords(at(start, element, mul(chunk, vector))));
    return words;
  };
  auto loadAll = [&](Value batch) {
    Values words;
    for (int64_t u = 0; u < loads; ++u)
      llvm::append_range(words, loadOne(add(add(mul(batch, loads * kWarp), lane), u * kWarp)));
    return words;
  };
  SmallVector<Type> batchTypes(kLoads, VectorType::get(4, b.getI32Type()));
  Values firstWords = branch(
      both(less(first, n), less(i32(0), batches)), batchTypes, [&] { return loadAll(i32(0)); },
      [&] { return Values(kLoads, LLVM::ZeroOp::create(b, loc, batchTypes[0])); });
  createDependency(b, loc, ::tpc::dependent_launch::kWait);
  // Warps beyond the last row do nothing else.
  branch(less(first, n), [&] {
    // Sums: [m][row].
    auto multiply = [&](ValueRange words, Value chunk, ValueRange sums) {
      Values after(sums);
      SmallVector<Values> ws;
      for (Value word : words)
        ws.push_back(unpack(word));
      for (int64_t i = 0; i < variant.m; ++i) {
        Values xs = loadX(i, mul(chunk, vector), vector);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < vector; ++j) {
            Value &sum = after[i * rows + r];
            sum = fma(xs[j], ws[r][j], sum);
          }
      }
      return after;
    };
    auto multiplyAll = [&](ValueRange words, Value batch, ValueRange sums) {
      Values after(sums);
      for (int64_t u = 0; u < loads; ++u)
        after = multiply(words.slice(u * rows, rows),
                         add(add(mul(batch, loads * kWarp), lane), u * kWarp), after);
      return after;
    };
    Values sums(variant.m * rows, f32(0));
    SmallVector<Type> types(sums.size(), f);
    sums = branch(
        less(i32(0), batches), types,
        [&] {
          Values state = firstWords;
          llvm::append_range(state, sums);
          state = loop(i32(1), batches, i32(1), state, [&](Value next, ValueRange now) {
            Values after = loadAll(next);
            llvm::append_range(after, multiplyAll(now.take_front(kLoads), sub(next, i32(1)),
                                                  now.drop_front(kLoads)));
            return after;
          });
          ValueRange last(state);
          return multiplyAll(last.take_front(kLoads), sub(batches, i32(1)),
                             last.drop_front(kLoads));
        },
        [&] { return sums; });
    // The remaining chunks are too few for an iteration of the loop above.
    Value rest = mul(batches, loads * kWarp);
    sums = branch(
        less(rest, chunks), types,
        [&] {
          Type word = VectorType::get(4, b.getI32Type());
          SmallVector<Type> wordTypes(rows, word);
          Value zeroWords = LLVM::ZeroOp::create(b, loc, word);
          Values words, exist, chunkIndices, after(sums);
          for (int64_t u = 0; u < loads; ++u) {
            chunkIndices.push_back(add(add(rest, lane), u * kWarp));
            exist.push_back(less(chunkIndices[u], chunks));
            llvm::append_range(words,
                               branch(
                                   exist[u], wordTypes, [&] { return loadOne(chunkIndices[u]); },
                                   [&] { return Values(rows, zeroWords); }));
          }
          for (int64_t u = 0; u < loads; ++u) {
            Values before = after;
            after = branch(
                exist[u], types,
                [&] {
                  return multiply(ValueRange(words).slice(u * rows, rows), chunkIndices[u], before);
                },
                [&] { return before; });
          }
          return after;
        },
        [&] { return sums; });
    // A lane stores one result.
    Value result = sums[0];
    for (auto [i, sum] : llvm::enumerate(sums)) {
      sum = addLanes(sum, kWarp / 2, 1);
      result = i ? select(compare(Predicate::eq, lane, i32(i)), sum, result) : sum;
    }
    Value column = add(first, rem(lane, rows));
    branch(both(less(lane, i32(sums.size())), less(column, n)),
           [&] { store(div(lane, rows), column, result); });
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Value GemvEmitter::addIfAny(Value pointer, Type type, Value index, Value before) {
  return branch(
      isNull(pointer), {b.getF32Type()}, [&] { return Values{before}; },
      [&] { return Values{fadd(before, toF32(load(at(pointer, type, index), type)))}; })[0];
}

void GemvEmitter::storeAs(Type type, Value index, Value column, Value sum) {
  sum = addIfAny(residual, type, index, sum);
  sum = addIfAny(bias, type, column, sum);
  storeMany(at(out, type, index), {fromF32(sum, type)});
}

GemvEmitter::Values GemvEmitter::withResultType(TypeRange types, function_ref<Values(Type)> body) {
  if (element.isF32())
    return body(element);
  return branch(
      compare(Predicate::ne, isWide, i32(0)), types, [&] { return body(b.getF32Type()); },
      [&] { return body(element); });
}

void GemvEmitter::store(Value row, Value column, Value sum) {
  Value index = add(mul(wide(row), wide(outRow)), wide(column));
  withResultType({}, [&](Type type) {
    storeAs(type, index, column, sum);
    return Values();
  });
}

void GemvEmitter::emit() {
  LLVM::LLVMFuncOp kernel =
      beginKernel(cuda::getName(variant), /*pointers=*/variant.fused ? 9 : 7, kThreads,
                  /*integers=*/variant.fused ? 12 : 6);
  setMinBlocks(kernel, getMinBlocks(variant));
  SmallVector<Value *> parameters{&w, &x, &out, &bias, &residual, &partials, &counters};
  if (variant.fused)
    parameters.append({&scale, &shift});
  parameters.append({&k, &n, &chunksOfSplit, &isWide, &wRow, &outRow});
  if (variant.fused)
    parameters.append({&norm, &isWideX, &isWideScale, &epsilon, &activation, &gated});
  for (auto [value, argument] : llvm::zip_equal(parameters, kernel.getArguments()))
    *value = argument;
  thread = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  lane = rem(thread, kWarp);
  warp = div(thread, kWarp);
  createDependency(b, loc, ::tpc::dependent_launch::kLaunchDependents);
  if (variant.transposed)
    emitRows();
  else
    emitColumns();
  endKernel();
}

unsigned cuda::getMinBlocks(const GemvVariant &variant) {
  bool hasManyValues = variant.transposed ? variant.element == TPC_F32 : variant.m == kMaxRows;
  return hasManyValues ? 1 : 2;
}

void cuda::makeGemvKernel(ModuleOp kernels, const GemvVariant &variant) {
  GemvEmitter(kernels, variant).emit();
}

void cuda::loadKernelDialects(MLIRContext &context) {
  context
      .loadDialect<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect, NVVM::NVVMDialect>();
}
