//===- AttentionTensorTiles.cpp - Attention on tensor cores ---------------===//

#include "AttentionTensorTiles.h"
#include "Threads.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

static constexpr double kLog2OfE = 1.4426950408889634;

static bool hasPlainScores(const AttentionVariant &variant) {
  return !variant.keyMask && !variant.mask && !variant.softcap && variant.bias < 0 &&
         variant.slopes < 0;
}

std::optional<TensorTile> cuda::getTensorTile(const AttentionVariant &variant) {
  if (variant.element == TPC_F32)
    return std::nullopt;
  // A block has 255 registers per thread and 99 KiB of shared memory. With heads of 64 on an H100,
  // three blocks were 3 to 5% faster than two from 2048 tokens on. Tiles of 128 rows were another 3
  // to 4% faster there, but 38% slower for 512 tokens. Windows, means of values, and steps of
  // scores that apply to all tiles occupy registers.
  bool isPlain = hasPlainScores(variant);
  bool hasFewSteps = isPlain && !(variant.windowed && variant.uniformRows);
  bool hasFewestSteps = isPlain && !variant.windowed && !variant.uniformRows;
  unsigned size = std::max(variant.headSize, variant.valueSize);
  if (size <= 64)
    return TensorTile{.rows = 64, .keys = 64, .blocks = hasFewestSteps ? 3u : 2u};
  if (size <= 128)
    return TensorTile{.rows = 64, .keys = hasFewSteps ? 64u : 32u};
  return TensorTile{.rows = 64, .keys = 32, .blocks = 1, .queriesInRegisters = false};
}

std::string TensorTile::str() const {
  return std::to_string(rows) + " rows x " + std::to_string(keys) + " keys, " +
         std::to_string(warps) + " warps, " + std::to_string(blocks) + " blocks, queries in " +
         (queriesInRegisters ? "registers" : "shared memory");
}

TensorTileEmitter::TensorTileEmitter(ModuleOp module, const AttentionVariant &variant)
    : AttentionBase(module, variant), tile(*getTensorTile(variant)),
      queryLayout(tile.rows, variant.headSize), keyLayout(tile.keys, variant.headSize),
      valueLayout(tile.keys, variant.valueSize), isPlain(hasPlainScores(variant)),
      threads(tile.warps * kWarp) {}

Launch TensorTileEmitter::emit(StringRef name) {
  LLVM::LLVMFuncOp kernel = begin(name, 1, threads);
  setMinBlocks(kernel, tile.blocks);
  kernel->setAttr("tile", b.getStringAttr(tile.str()));
  Type i8 = b.getI8Type();
  queryMemory = getDynamicShared();
  keyMemory = at(queryMemory, i8, int64_t(queryLayout.getBytes()));
  valueMemory = at(keyMemory, i8, int64_t(2 * keyLayout.getBytes()));
  unsigned bytes = queryLayout.getBytes() + 2 * keyLayout.getBytes() + 2 * valueLayout.getBytes();
  clearPadding(queryLayout, queryMemory);
  for (int64_t stage : {0, 1}) {
    clearPadding(keyLayout, getTile(keyMemory, keyLayout, i32(stage)));
    clearPadding(valueLayout, getTile(valueMemory, valueLayout, i32(stage)));
  }

  // A loop over work items. Their number is recomputed, which is cheaper than one more register.
  auto countItems = [&] { return mul(ceilDiv(rows, tile.rows), pairs); };
  Value item = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *body = b.createBlock(region, region->end(), item.getType(), loc);
  Block *after = b.createBlock(region);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, less(item, countItems()), body, item, after, ValueRange());
  b.setInsertionPointToStart(body);
  item = body->getArgument(0);
  emitItem(item);
  Value next = add(item, NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
  auto backEdge =
      LLVM::CondBrOp::create(b, loc, less(next, countItems()), body, next, after, ValueRange());
  // Most blocks have one item. Values that are hoisted out of this loop would occupy registers
  // during the loop over keys.
  MLIRContext *context = b.getContext();
  auto noMotion = LLVM::LoopLICMAttr::get(context, b.getBoolAttr(true), {});
  backEdge.setLoopAnnotationAttr(LLVM::LoopAnnotationAttr::get(
      context, {}, {}, {}, {}, {}, noMotion, {}, {}, {}, {}, {}, {}, {}, {}, {}));
  b.setInsertionPointToStart(after);
  endKernel();
  Launch launch;
  launch.name = name.str();
  launch.shape = Shape::AttentionTiles;
  launch.threads = threads;
  launch.dynamicSharedBytes = bytes;
  return launch;
}

Value TensorTileEmitter::getRowOfLane(unsigned index) {
  return add(add(firstRow, mul(warp, rowTiles() * kMmaRows)),
             add(laneRow, int64_t(index * kMmaRows / 2)));
}

void TensorTileEmitter::beginItem(Value item) {
  // Blocks of rows vary slowest. The last block is first, because it takes longest if attention is
  // causal.
  laneRow = div(lane, 4);
  laneColumn = mul(rem(lane, 4), 2);
  beginPair(rem(item, pairs));
  firstRow = mul(sub(sub(ceilDiv(rows, tile.rows), i32(1)), div(item, pairs)), tile.rows);
  // Lanes without a row use the indices of the last row.
  rowsHere.clear();
  for (unsigned r = 0; r < rowsOfLane(); ++r)
    rowsHere.push_back(getVisibleRow(min(getRowOfLane(r), sub(rows, i32(1)))));
}

void TensorTileEmitter::emitItem(Value item) {
  barrier(); // all warps have read the tiles of the previous work item
  // Loads values of the launch again for each item, so that they occupy no registers in between.
  loadArguments();
  computeSizes();
  constexpr unsigned atOnce = kChunkBytes;
  queriesAligned = isAligned(Args::q, Args::q_row_stride, variant.headSize, atOnce);
  keysAligned = areKeysAligned(/*isValue=*/false, atOnce);
  valuesAligned = areKeysAligned(/*isValue=*/true, atOnce);
  queryOffsets = getLaneOffsets(queryLayout, lane, mul(warp, rowTiles() * kMmaRows), false);
  keyOffsets = getLaneOffsets(keyLayout, lane, i32(0), /*isColumnMajor=*/true);
  valueOffsets = getLaneOffsets(valueLayout, lane, i32(0), false);
  beginItem(item);

  // Scores that are not plain are scaled before their other steps.
  Value scale = argument(Args::scale);
  if (isPlain) {
    // Hidden scores remain hidden if the scale is 0.
    Value size = math::AbsFOp::create(b, loc, scale);
    factor = fmax(fmul(size, f32(kLog2OfE)), f32(1e-30));
    Value isNegative = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, scale, f32(0));
    signs = select(isNegative, i32(static_cast<int32_t>(0x80008000)), i32(0));
  } else {
    factor = f32(kLog2OfE);
  }
  keysHere = keys;
  Value lastRow = sub(rows, i32(1));
  commonKeys.clear();
  for (unsigned t = 0; t < rowTiles(); ++t) {
    Value first = add(firstRow, add(mul(warp, rowTiles() * kMmaRows), int64_t(t * kMmaRows)));
    VisibleRow ofFirstRow = getVisibleRow(min(first, lastRow));
    VisibleRow ofLastRow = getVisibleRow(min(add(first, int64_t(kMmaRows - 1)), lastRow));
    commonKeys.emplace_back(ofLastRow.firstKey, ofFirstRow.lastKey);
  }
  Value begin = i32(0), end = keys;
  if (variant.causal) {
    Value last = div(min(add(firstRow, int64_t(tile.rows - 1)), lastRow), group);
    end = getLimit(last, Args::causal_offset);
    // Cache entries after the last token may be uninitialized.
    if (variant.cached)
      keysHere = end;
  }
  if (variant.windowed) {
    begin = getLimit(div(firstRow, group), Args::window_offset);
    begin = mul(div(begin, tile.keys), tile.keys);
  }

  State none{Values(rowsOfLane(), f32(kNone)),
             Values(rowsOfLane(), f32(0)),
             Values(rowTiles() * valueBlocks() * 4, f32(0)),
             {},
             {}};
  Values list = none.list();
  State state = getState(branch(
      less(begin, end), SmallVector<Type>(ValueRange(list).getTypes()),
      [&] { return computeRows(begin, end).list(); }, [&] { return list; }));
  // Values that the loop does not use are loaded again, so that they occupy no registers there.
  loadArguments();
  computeSizes();
  beginItem(item);
  writeResult(state);
}

/// Keys are one tile ahead of values: the scores of the next tile are computed together with the
/// softmax of this tile, so that tensor cores and other units work at the same time.
TensorTileEmitter::State TensorTileEmitter::computeRows(Value begin, Value end) {
  const int64_t step = tile.keys;
  copyQueries();
  copyKeys(begin, i32(0), /*isValue=*/false);
  endCopyGroup();
  copyKeys(begin, i32(0), /*isValue=*/true);
  Value second = add(begin, step);
  branch(less(second, end), [&] { copyKeys(second, i32(1), /*isValue=*/false); });
  endCopyGroup();
  waitForCopies(1);
  barrier();
  if (tile.queriesInRegisters)
    loadQueries();
  State state{Values(rowsOfLane(), f32(kNone)), Values(rowsOfLane(), f32(0)),
              Values(rowTiles() * valueBlocks() * 4, f32(0)), multiplyKeys(i32(0)), i32(0)};
  auto addTile = [&](Value key, ValueRange before) {
    State carried = getState(before);
    waitForCopies(0);
    barrier(); // this tile's values and the next keys are written, and no warp reads older tiles
    Value next = add(key, step), afterNext = add(key, 2 * step), other = sub(i32(1), carried.stage);
    branch(less(afterNext, end), [&] { copyKeys(afterNext, carried.stage, /*isValue=*/false); });
    copyKeys(next, other, /*isValue=*/true);
    endCopyGroup();
    finishScores(carried.scores, key);
    Values scores = multiplyKeys(other);
    addSoftmax(carried);
    addValues(carried);
    carried.scores = scores;
    carried.stage = other;
    return carried.list();
  };
  state = getState(loop(begin, add(end, -step), i32(step), state.list(), addTile));
  waitForCopies(0);
  barrier();
  Value tiles = div(sub(sub(end, begin), i32(1)), step); // without the last one
  finishScores(state.scores, add(begin, mul(tiles, step)));
  addSoftmax(state);
  addValues(state);
  state.scores.clear();
  state.stage = {};
  return state;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

AttentionBase::Values TensorTileEmitter::State::list() const {
  Values all(maximum);
  llvm::append_range(all, total);
  llvm::append_range(all, sums);
  llvm::append_range(all, scores);
  if (stage)
    all.push_back(stage);
  return all;
}

TensorTileEmitter::State TensorTileEmitter::getState(ValueRange list) const {
  ValueRange rest = list.drop_front(2 * rowsOfLane());
  unsigned sums = rowTiles() * valueBlocks() * 4;
  State state{Values(list.take_front(rowsOfLane())),
              Values(list.slice(rowsOfLane(), rowsOfLane())),
              Values(rest.take_front(sums)),
              {},
              {}};
  rest = rest.drop_front(sums);
  if (!rest.empty()) {
    state.scores = Values(rest.drop_back());
    state.stage = rest.back();
  }
  return state;
}

//===----------------------------------------------------------------------===//
// Scores and softmax
//===----------------------------------------------------------------------===//

/// Scores are fragments of C: [row tile][key block][4].
AttentionBase::Values TensorTileEmitter::multiplyKeys(Value stage) {
  Value from = getTile(keyMemory, keyLayout, stage);
  Values scores(rowTiles() * keyBlocks() * 4, f32(0));
  for (unsigned step = 0; step < keyLayout.chunks / 2; ++step) {
    SmallVector<Values> queries;
    for (unsigned t = 0; t < rowTiles(); ++t)
      queries.push_back(getQueries(t, step));
    for (unsigned n = 0; n < keyBlocks(); n += 2) {
      Values keyWords =
          loadMatrices(from, keyOffsets, n * kMmaColumns, 2 * step, /*transposed=*/false);
      for (unsigned t = 0; t < rowTiles(); ++t)
        for (unsigned half : {0, 1}) {
          auto sums = MutableArrayRef<Value>(scores).slice((t * keyBlocks() + n + half) * 4, 4);
          llvm::copy(multiply(element, queries[t], ArrayRef<Value>(keyWords).slice(2 * half, 2),
                              ValueRange(ArrayRef<Value>(sums))),
                     sums.begin());
        }
    }
  }
  return scores;
}

void TensorTileEmitter::finishScores(Values &scores, Value firstKey) {
  unsigned count = keyBlocks() * 4;
  Value column = add(firstKey, laneColumn);
  for (unsigned t = 0; t < rowTiles(); ++t) {
    auto rowScores = MutableArrayRef<Value>(scores).slice(t * count, count);
    auto finish = [&] {
      Values after(rowScores.begin(), rowScores.end());
      for (unsigned i = 0; i < count; ++i) {
        Value key = add(column, int64_t(i / 4 * kMmaColumns + i % 2));
        if (!isPlain)
          after[i] = fmul(after[i], argument(Args::scale));
        after[i] = finishScore(after[i], rowsHere[2 * t + i % 4 / 2], key);
      }
      return after;
    };
    if (!isPlain) {
      llvm::copy(finish(), rowScores.begin());
      continue;
    }
    auto [first, last] = commonKeys[t];
    Value allVisible = compare(Predicate::sle, add(firstKey, int64_t(tile.keys)), last);
    if (first)
      allVisible = both(allVisible, compare(Predicate::sle, first, firstKey));
    SmallVector<Type> types(count, b.getF32Type());
    Values same(rowScores.begin(), rowScores.end());
    llvm::copy(branch(allVisible, types, [&] { return same; }, finish), rowScores.begin());
  }
}

/// Lanes that differ in the two lowest bits have the same rows.
Value TensorTileEmitter::getMaximumOverLanes(Value value) {
  for (int32_t bits : {1, 2})
    value = fmax(value, createShuffle(b, loc, value, bits));
  return value;
}

Value TensorTileEmitter::getSumOverLanes(Value value) {
  for (int32_t bits : {1, 2})
    value = fadd(value, createShuffle(b, loc, value, bits));
  return value;
}

/// Combines values pairwise, in a tree, so that few wait for each other.
static Value combine(SmallVector<Value> values, function_ref<Value(Value, Value)> join) {
  while (values.size() > 1) {
    size_t half = (values.size() + 1) / 2;
    for (size_t i = 0; i + half < values.size(); ++i)
      values[i] = join(values[i], values[i + half]);
    values.resize(half);
  }
  return values[0];
}

/// Replaces scores by exponentials relative to the running maximum.
void TensorTileEmitter::addSoftmax(State &state) {
  Values &scores = state.scores;
  for (unsigned r = 0; r < rowsOfLane(); ++r) {
    Values rowScores;
    SmallVector<unsigned> indices;
    for (unsigned n = 0; n < keyBlocks(); ++n)
      for (unsigned i : {0, 1})
        indices.push_back((r / 2 * keyBlocks() + n) * 4 + r % 2 * 2 + i);
    for (unsigned index : indices)
      rowScores.push_back(scores[index]);
    Value maximum = combine(rowScores, [&](Value x, Value y) { return fmax(x, y); });
    maximum = fmax(state.maximum[r], getMaximumOverLanes(maximum));
    // If no key was visible so far, all exponentials are 0.
    Value base = select(equals(maximum, f32(kNone)), f32(0), maximum);
    Value shift = arith::NegFOp::create(b, loc, fmul(base, factor));
    Value shrink = exp2(fma(state.maximum[r], factor, shift));
    state.maximum[r] = maximum;
    for (auto [index, power] : llvm::zip_equal(indices, rowScores)) {
      power = exp2(fma(power, factor, shift));
      scores[index] = power;
    }
    Value total = combine(rowScores, [&](Value x, Value y) { return fadd(x, y); });
    state.total[r] = fma(state.total[r], shrink, total);
    for (unsigned n = 0; n < valueBlocks(); ++n)
      for (unsigned i : {0, 1}) {
        Value &sum = state.sums[(r / 2 * valueBlocks() + n) * 4 + r % 2 * 2 + i];
        sum = fmul(sum, shrink);
      }
  }
}

void TensorTileEmitter::addValues(State &state) {
  ArrayRef<Value> powers = state.scores;
  Value from = getTile(valueMemory, valueLayout, state.stage);
  for (unsigned step = 0; step < keyBlocks() / 2; ++step) {
    SmallVector<Values> rounded(rowTiles());
    for (unsigned t = 0; t < rowTiles(); ++t)
      for (unsigned i = 0; i < 8; i += 2) {
        unsigned first = (t * keyBlocks() + 2 * step) * 4 + i;
        rounded[t].push_back(pack(powers[first], powers[first + 1], element));
      }
    for (unsigned n = 0; n < valueBlocks(); n += 2) {
      Values valueWords =
          loadMatrices(from, valueOffsets, step * kMmaDepth, n, /*transposed=*/true);
      for (unsigned t = 0; t < rowTiles(); ++t)
        for (unsigned half : {0, 1}) {
          auto sums =
              MutableArrayRef<Value>(state.sums).slice((t * valueBlocks() + n + half) * 4, 4);
          llvm::copy(multiply(element, rounded[t], ArrayRef<Value>(valueWords).slice(2 * half, 2),
                              ValueRange(ArrayRef<Value>(sums))),
                     sums.begin());
        }
    }
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void TensorTileEmitter::writeResult(State &state) {
  Values columns, totals, visible;
  for (unsigned n = 0; n < valueBlocks(); ++n)
    for (unsigned i : {0, 1})
      columns.push_back(add(laneColumn, int64_t(n * kMmaColumns + i)));
  Values zeros(columns.size(), f32(0)), otherwise = zeros;
  Values scales;
  Value allVisible;
  for (unsigned r = 0; r < rowsOfLane(); ++r) {
    Value total = getSumOverLanes(state.total[r]), maximum = state.maximum[r];
    if (isPlain)
      maximum = fmul(maximum, math::AbsFOp::create(b, loc, argument(Args::scale)));
    Value weight = addSink(maximum, total, rowsHere[r].row);
    visible.push_back(arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, total, f32(0)));
    allVisible = both(allVisible, visible.back());
    Value scale = fdiv(f32(1), total);
    scales.push_back(weight ? fmul(scale, weight) : scale);
  }
  if (variant.uniformRows) {
    SmallVector<Type> types(columns.size(), b.getF32Type());
    otherwise = branch(
        allVisible, types, [&] { return zeros; }, [&] { return getMeans(batch, kvHead, columns); });
  }
  Value to = argument(Args::out);
  constexpr unsigned pairBytes = 4;
  Value aligned = isAligned(Args::out, Args::out_row_stride, variant.valueSize, pairBytes);
  for (unsigned r = 0; r < rowsOfLane(); ++r) {
    Values results;
    for (auto [c, mean] : llvm::enumerate(otherwise)) {
      Value sum = state.sums[(r / 2 * valueBlocks() + c / 2) * 4 + r % 2 * 2 + c % 2];
      results.push_back(select(visible[r], fmul(sum, scales[r]), mean));
    }
    branch(less(getRowOfLane(r), rows), [&] {
      Value offset = getOffset(rowsHere[r].row, batch, Args::out_row_stride, variant.valueSize);
      auto write = [&](bool inPairs) {
        for (unsigned c = 0; c < columns.size(); c += 2) {
          auto addressOf = [&](unsigned c) {
            return at(to, element, add(offset, wide(columns[c])));
          };
          auto store = [&] {
            if (inPairs)
              return storeMany(addressOf(c), {pack(results[c], results[c + 1], element)});
            for (unsigned i : {c, c + 1})
              branch(less(columns[i], i32(variant.valueSize)),
                     [&] { storeMany(addressOf(i), {fromF32(results[i], element)}); });
          };
          bool isInside = (c / 2 + 1) * kMmaColumns <= unsigned(variant.valueSize);
          if (!inPairs || isInside)
            store();
          else
            branch(less(columns[c], i32(variant.valueSize)), store);
        }
        return Values();
      };
      if (aligned)
        branch(aligned, {}, [&] { return write(true); }, [&] { return write(false); });
      else
        write(false);
    });
  }
}
