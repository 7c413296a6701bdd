//===- AttentionSplit.cpp - Attention of few rows, keys split over blocks -===//

#include "AttentionEmitter.h"
#include "Threads.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using namespace ::tpc::attention;

/// Rows that a thread computes at once, and keys whose loads are in flight together if rows begin
/// at multiples of 16 bytes.
static constexpr unsigned kRows = 4, kUnroll = 4;
/// Parts whose loads are in flight together.
static constexpr unsigned kPartsAtOnce = 8;
static_assert(kRowsOfSplit % kRows == 0, "rows of a launch");

SplitEmitter::SplitEmitter(ModuleOp module, const AttentionVariant &variant)
    : AttentionBase(module, variant) {
  width = kWideBytes / (element.getIntOrFloatBitWidth() / 8);
  unsigned size = std::max(variant.headSize, variant.valueSize);
  lanesOfKey = std::min<unsigned>(llvm::PowerOf2Ceil((size + width - 1) / width), kWarp);
  chunks = (size + width * lanesOfKey - 1) / (width * lanesOfKey);
  columns = lanesOfKey * chunks * width;
  keysOfWarp = kWarp / lanesOfKey;
  warps = usesTensorCores() || lanesOfKey <= 8 ? 4 : 8;
  threads = warps * kWarp;
}

Launch SplitEmitter::emit(StringRef name) {
  LLVM::LLVMFuncOp kernel = begin(name, 3, threads);
  workspace = kernel.getArgument(1);
  counters = kernel.getArgument(2);
  Type f = b.getF32Type();
  laneOfKey = rem(lane, lanesOfKey);
  keyOfWarp = div(lane, lanesOfKey);
  parts = max(min(ceilDiv(keys, kKeysOfUnit), i32(kMaxParts)), i32(1));

  unsigned floats = 0;
  Value shared = getDynamicShared();
  auto allocate = [&](unsigned count) {
    Value memory = at(shared, f, int64_t(floats));
    floats += count;
    return memory;
  };
  unsigned rowsAtOnce = usesTensorCores() ? kFragmentRows : kRows;
  sumMemory =
      allocate(std::max(warps * kRows * columns, usesTensorCores() ? getFragmentFloats() : 0));
  stateMemory = allocate(warps * rowsAtOnce * 2);
  flagMemory = allocate(1);

  Value wide;
  Value queriesAtOnce = isAligned(Args::q, Args::q_row_stride, variant.headSize, kWideBytes);
  Value keysAtOnce = areKeysAligned(/*isValue=*/false, kWideBytes);
  Value valuesAtOnce = areKeysAligned(/*isValue=*/true, kWideBytes);
  if (queriesAtOnce && keysAtOnce && valuesAtOnce)
    wide = both(queriesAtOnce, both(keysAtOnce, valuesAtOnce));
  Value items = select(less(i32(0), rows), mul(pairs, parts), i32(0));
  Value block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  Value blocks = NVVM::GridDimXOp::create(b, loc, b.getI32Type());
  loop(block, items, blocks, [&](Value item) {
    auto by = [&](bool isWide) {
      this->isWide = isWide;
      unroll = isWide ? kUnroll : 1;
      emitItem(item);
      return Values();
    };
    if (wide)
      branch(wide, {}, [&] { return by(true); }, [&] { return by(false); });
    else
      by(false);
  });
  endKernel();
  Launch launch;
  launch.name = name.str();
  launch.shape = Shape::AttentionSplit;
  launch.threads = threads;
  launch.dynamicSharedBytes = floats * 4;
  return launch;
}

/// Parts are chosen from the keys that are visible to some row, which depend on the sequence's
/// length in device memory. Blocks beyond the last part have no work.
void SplitEmitter::emitItem(Value item) {
  part = rem(item, parts);
  beginPair(div(item, parts));
  Value begin = i32(0), end = keys;
  if (variant.causal)
    end = getLimit(sub(queries, i32(1)), Args::causal_offset);
  if (variant.windowed)
    begin = getLimit(i32(0), Args::window_offset);
  Value count = max(sub(end, begin), i32(0));
  Value units = max(ceilDiv(ceilDiv(count, kKeysOfUnit), kMaxParts), i32(1));
  Value keysOfPart = mul(units, kKeysOfUnit);
  used = max(div(sub(add(count, keysOfPart), i32(1)), keysOfPart), i32(1));
  branch(less(part, used), [&] {
    firstKey = add(begin, mul(part, keysOfPart));
    lastKey = min(end, add(firstKey, keysOfPart));
    if (isWide && usesTensorCores())
      loop(i32(0), rows, i32(kFragmentRows), [&](Value row) { emitFragments(row); });
    else
      loop(i32(0), rows, i32(kRows), [&](Value row) { emitRows(row); });
    branch(less(i32(1), used), [&] { joinParts(); });
  });
}

//===----------------------------------------------------------------------===//
// Rows over the keys of a part
//===----------------------------------------------------------------------===//

/// Returns this lane's columns of a row of `size` columns; columns beyond the row are zero.
AttentionBase::Values SplitEmitter::loadRow(Value from, Value offset, unsigned size) {
  Values values;
  Value zero = arith::ConstantOp::create(b, loc, b.getFloatAttr(element, 0));
  auto loadSome = [&](Value column, unsigned count) {
    Value exists = columns > size ? less(column, i32(size)) : Value();
    Value safe = exists ? select(exists, column, i32(0)) : column;
    for (Value value : loadMany(at(from, element, add(offset, this->wide(safe))), element, count))
      values.push_back(exists ? select(exists, value, zero) : value);
  };
  for (unsigned c = 0; c < chunks; ++c) {
    Value column = mul(add(laneOfKey, int64_t(c * lanesOfKey)), width);
    if (isWide)
      loadSome(column, width);
    else
      for (unsigned i = 0; i < width; ++i)
        loadSome(add(column, int64_t(i)), 1);
  }
  return values;
}

SplitEmitter::State SplitEmitter::getState(ValueRange list) {
  return {Values(list.take_front(kRows)), Values(list.slice(kRows, kRows)),
          Values(list.drop_front(2 * kRows))};
}

AttentionBase::Values SplitEmitter::State::list() const {
  Values all(maximum);
  llvm::append_range(all, total);
  llvm::append_range(all, sums);
  return all;
}

void SplitEmitter::emitRows(Value firstRow) {
  unsigned perRow = chunks * width;
  SmallVector<VisibleRow, kRows> rowsHere;
  Values query;
  for (unsigned r = 0; r < kRows; ++r) {
    // Rows beyond the last row are replaced by the last row.
    rowsHere.push_back(getVisibleRow(min(add(firstRow, int64_t(r)), sub(rows, i32(1)))));
    Value offset = getOffset(rowsHere[r].row, batch, Args::q_row_stride, variant.headSize);
    for (Value value : loadRow(argument(Args::q), offset, variant.headSize))
      query.push_back(fmul(toF32(value), argument(Args::scale)));
  }
  State state{Values(kRows, f32(kNone)), Values(kRows, f32(0)), Values(kRows * perRow, f32(0))};
  Value first = add(firstKey, mul(warp, keysOfWarp));
  state = getState(loop(first, lastKey, i32(warps * keysOfWarp * unroll), state.list(),
                        [&](Value key, ValueRange before) {
                          State carried = getState(before);
                          addKeys(carried, rowsHere, query, add(key, keyOfWarp));
                          return carried.list();
                        }));
  // Combines the states of a warp's lanes, which have different keys.
  for (unsigned distance = lanesOfKey; distance < kWarp; distance *= 2)
    for (unsigned r = 0; r < kRows; ++r) {
      auto other = [&](Value value) { return createShuffle(b, loc, value, int32_t(distance)); };
      Value otherMaximum = other(state.maximum[r]), maximum = fmax(state.maximum[r], otherMaximum);
      Value base = getBase(maximum);
      Value weight = expOfNegative(fsub(state.maximum[r], base));
      Value otherWeight = expOfNegative(fsub(otherMaximum, base));
      auto join = [&](Value &value) {
        value = fma(other(value), otherWeight, fmul(value, weight));
      };
      join(state.total[r]);
      for (unsigned i = 0; i < perRow; ++i)
        join(state.sums[r * perRow + i]);
      state.maximum[r] = maximum;
    }
  joinWarps(state, firstRow);
}

Value SplitEmitter::getBase(Value maximum) {
  return select(equals(maximum, f32(kNone)), f32(0), maximum);
}

/// Adds `unroll` keys per lane, from `key` on.
void SplitEmitter::addKeys(State &state, ArrayRef<VisibleRow> rowsHere, ValueRange query,
                           Value key) {
  unsigned perRow = chunks * width;
  Value keyOffset = getKeyOffset(batch, kvHead, /*isValue=*/false);
  Value valueOffset = getKeyOffset(batch, kvHead, /*isValue=*/true);
  Value keyStep = size(Args::k_row_stride), valueStep = size(Args::v_row_stride);
  Values keysHere, safeKeys, keyRows[kUnroll], valueRows[kUnroll];
  for (unsigned u = 0; u < unroll; ++u) {
    keysHere.push_back(add(key, int64_t(u * warps * keysOfWarp)));
    // Keys beyond the part are replaced by its last key.
    safeKeys.push_back(min(keysHere[u], sub(lastKey, i32(1))));
  }
  for (unsigned u = 0; u < unroll; ++u)
    keyRows[u] =
        loadRow(argument(Args::k), add(keyOffset, product(safeKeys[u], keyStep)), variant.headSize);
  for (unsigned u = 0; u < unroll; ++u)
    valueRows[u] = loadRow(argument(Args::v), add(valueOffset, product(safeKeys[u], valueStep)),
                           variant.valueSize);
  Values scores(unroll * kRows, f32(0));
  for (unsigned u = 0; u < unroll; ++u)
    for (unsigned i = 0; i < perRow; ++i) {
      Value element = toF32(keyRows[u][i]);
      for (unsigned r = 0; r < kRows; ++r) {
        Value &score = scores[u * kRows + r];
        score = fma(query[r * perRow + i], element, score);
      }
    }
  for (unsigned distance = 1; distance < lanesOfKey; distance *= 2)
    for (Value &score : scores)
      score = fadd(score, createShuffle(b, loc, score, int32_t(distance)));
  for (unsigned u = 0; u < unroll; ++u) {
    Value exists = less(keysHere[u], lastKey);
    for (unsigned r = 0; r < kRows; ++r) {
      Value &score = scores[u * kRows + r];
      score = select(exists, finishScore(score, rowsHere[r], keysHere[u]), f32(kNone));
    }
  }
  for (unsigned r = 0; r < kRows; ++r) {
    Value maximum = state.maximum[r];
    for (unsigned u = 0; u < unroll; ++u)
      maximum = fmax(maximum, scores[u * kRows + r]);
    Value base = getBase(maximum), shrink = expOfNegative(fsub(state.maximum[r], base));
    state.maximum[r] = maximum;
    state.total[r] = fmul(state.total[r], shrink);
    for (unsigned i = 0; i < perRow; ++i)
      state.sums[r * perRow + i] = fmul(state.sums[r * perRow + i], shrink);
    for (unsigned u = 0; u < unroll; ++u) {
      scores[u * kRows + r] = expOfNegative(fsub(scores[u * kRows + r], base));
      state.total[r] = fadd(state.total[r], scores[u * kRows + r]);
    }
  }
  for (unsigned u = 0; u < unroll; ++u)
    for (unsigned i = 0; i < perRow; ++i) {
      Value element = toF32(valueRows[u][i]);
      for (unsigned r = 0; r < kRows; ++r) {
        Value &sum = state.sums[r * perRow + i];
        sum = fma(scores[u * kRows + r], element, sum);
      }
    }
}

/// Combines the states of all warps in order. Writes the results if there is one part, else the
/// part's state.
void SplitEmitter::joinWarps(const State &state, Value firstRow) {
  Type f = b.getF32Type();
  unsigned perRow = chunks * width;
  barrier(); // all threads have read the previous rows' states
  branch(less(lane, i32(lanesOfKey)), [&] {
    for (unsigned r = 0; r < kRows; ++r)
      for (unsigned c = 0; c < chunks; ++c) {
        Value column = mul(add(lane, int64_t(c * lanesOfKey)), width);
        Value to = at(sumMemory, f, add(mul(add(mul(warp, kRows), int64_t(r)), columns), column));
        for (unsigned i = 0; i < width; i += 4)
          storeMany(at(to, f, int64_t(i)),
                    ArrayRef<Value>(state.sums).slice(r * perRow + c * width + i, 4));
      }
  });
  branch(compare(Predicate::eq, lane, i32(0)), [&] {
    for (unsigned r = 0; r < kRows; ++r)
      storeMany(at(stateMemory, f, add(mul(warp, kRows * 2), int64_t(2 * r))),
                {state.maximum[r], state.total[r]});
  });
  barrier();
  unsigned all = kRows * columns;
  loop(thread, i32(all), i32(threads), [&](Value number) {
    Value r = div(number, columns), column = rem(number, columns), row = add(firstRow, r);
    Value exists = both(less(row, rows), less(column, i32(llvm::alignTo(variant.valueSize, 4))));
    branch(exists, [&] {
      Values maxima, totals;
      Value maximum = f32(kNone), total = f32(0), sum = f32(0);
      for (unsigned w = 0; w < warps; ++w) {
        Value from = at(stateMemory, f, add(mul(r, 2), int64_t(w * kRows * 2)));
        Values maximumAndTotal = loadMany(from, f, 2);
        maxima.push_back(maximumAndTotal[0]);
        totals.push_back(maximumAndTotal[1]);
        maximum = fmax(maximum, maximumAndTotal[0]);
      }
      Value base = getBase(maximum);
      for (unsigned w = 0; w < warps; ++w) {
        Value weight = expOfNegative(fsub(maxima[w], base));
        total = fma(weight, totals[w], total);
        sum = fma(weight, load(at(sumMemory, f, add(number, int64_t(w * all))), f), sum);
      }
      branch(
          less(i32(1), used), {},
          [&] {
            Value to = getPartial(row, part);
            storeMany(at(to, f, column), {sum});
            branch(compare(Predicate::eq, column, i32(0)), [&] {
              storeMany(at(to, f, getPartialSize(variant.valueSize) - 4), {maximum, total});
            });
            return Values();
          },
          [&] {
            writeResult(row, column, sum, maximum, total);
            return Values();
          });
    });
  });
}

//===----------------------------------------------------------------------===//
// Parts of all blocks
//===----------------------------------------------------------------------===//

Value SplitEmitter::getPartial(Value row, Value ofPart) {
  Value index = add(mul(add(product(pair, rows), wide(row)), wide(parts)), wide(ofPart));
  return at(workspace, b.getF32Type(), mul(index, getPartialSize(variant.valueSize)));
}

void SplitEmitter::writeResult(Value row, Value column, Value sum, Value maximum, Value total) {
  branch(less(column, i32(variant.valueSize)), [&] {
    if (Value weight = addSink(maximum, total, getRow(row, kvHead)))
      sum = fmul(sum, weight);
    Value visible = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, total, f32(0));
    Value otherwise = f32(0);
    if (variant.uniformRows)
      otherwise = branch(
          visible, b.getF32Type(), [&] { return Values{f32(0)}; },
          [&] { return getMeans(batch, kvHead, {column}); })[0];
    Value result = select(visible, fmul(sum, fdiv(f32(1), total)), otherwise);
    Value offset = getOffset(getRow(row, kvHead), batch, Args::out_row_stride, variant.valueSize);
    storeMany(at(argument(Args::out), element, add(offset, wide(column))),
              {fromF32(result, element)});
  });
}

/// The block that finishes last combines all parts, in order. The count wraps to 0 for the next
/// launch. Its update releases this block's part and acquires those of the others.
void SplitEmitter::joinParts() {
  Type i32Type = b.getI32Type();
  barrier(); // the part is written
  Value last = sub(used, i32(1));
  branch(compare(Predicate::eq, thread, i32(0)), [&] {
    Value counter = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), at(counters, i32Type, pair));
    Value count = LLVM::InlineAsmOp::create(
                      b, loc, TypeRange{i32Type}, ValueRange{counter, last},
                      "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                      LLVM::AsmDialectAttr(), ArrayAttr())
                      .getRes();
    storeMany(flagMemory, {count});
  });
  barrier();
  branch(compare(Predicate::eq, load(flagMemory, i32Type), last), [&] { combineParts(); });
}

/// A thread combines four columns of a row. It has its own copy of the softmax over parts, so that
/// all of its loads are in flight together.
void SplitEmitter::combineParts() {
  Type f = b.getF32Type();
  const int64_t partialSize = getPartialSize(variant.valueSize);
  const unsigned ofRow = llvm::divideCeil(variant.valueSize, 4);
  loop(thread, mul(rows, ofRow), i32(threads), [&](Value number) {
    Value row = div(number, ofRow), column = mul(rem(number, ofRow), 4);
    Value from = getPartial(row, i32(0));
    Values init(6, f32(0)); // maximum, total, sums
    init[0] = f32(kNone);
    Values all = loop(i32(0), used, i32(kPartsAtOnce), init, [&](Value first, ValueRange before) {
      Values after(before), maxima, totals, sums[kPartsAtOnce];
      for (unsigned k = 0; k < kPartsAtOnce; ++k) {
        Value number = add(first, int64_t(k));
        Value address = at(from, f, mul(min(number, sub(used, i32(1))), partialSize));
        Values state = loadMany(at(address, f, partialSize - 4), f, 2);
        // Missing parts have a weight of 0.
        maxima.push_back(select(less(number, used), state[0], f32(kNone)));
        totals.push_back(state[1]);
        sums[k] = loadMany(at(address, f, column), f, 4);
      }
      for (Value maximum : maxima)
        after[0] = fmax(after[0], maximum);
      Value base = getBase(after[0]), shrink = expOfNegative(fsub(before[0], base));
      for (Value &sum : MutableArrayRef<Value>(after).drop_front())
        sum = fmul(sum, shrink);
      for (unsigned k = 0; k < kPartsAtOnce; ++k) {
        Value weight = expOfNegative(fsub(maxima[k], base));
        after[1] = fma(weight, totals[k], after[1]);
        for (unsigned i = 0; i < 4; ++i)
          after[2 + i] = fma(weight, sums[k][i], after[2 + i]);
      }
      return after;
    });
    for (unsigned i = 0; i < 4; ++i)
      writeResult(row, add(column, int64_t(i)), all[2 + i], all[0], all[1]);
  });
}
