//===- AttentionFragments.cpp - Attention of few rows on tensor cores -----===//
//
// For 16-bit elements, a warp computes 8 rows over 16 keys at a time by mma.m16n8k16. The other 8
// rows of fragments are zero: one query has at most 8 rows in most models, and registers limit the
// number of blocks. Fragments are loaded from memory into registers, 16 bytes per lane. Lane
// 4 g + t has
//
//   queries   columns 32 c + 8 t to + 7 of row g, for each c
//   keys      the same columns of keys g and g + 8. The order of columns in a product is the same
//             for queries and keys, so it does not matter that it is not ascending
//   scores    of row g with keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9
//   values    columns 64 c + 8 g to + 7 of these four keys; pairs of keys are packed by prmt
//   sums      columns 64 c + 16 t to + 15 of row g
//
// Powers are split into two 16-bit numbers, so that products with values are as exact as in f32.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "Threads.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using namespace ::tpc::attention;

/// Keys of a fragment, and columns of keys and of values that the lanes of a warp load together.
static constexpr unsigned kKeys = 16, kKeyColumns = 32, kValueColumns = 64;
/// Lanes of a row of scores.
static constexpr unsigned kLanesOfRow = 4;

bool SplitEmitter::usesTensorCores() const {
  return element.getIntOrFloatBitWidth() == 16 && variant.headSize % width == 0 &&
         variant.valueSize % width == 0 && std::max(variant.headSize, variant.valueSize) <= 128;
}

unsigned SplitEmitter::getFragmentFloats() const {
  return warps * kFragmentRows * (llvm::alignTo(variant.valueSize, kValueColumns) + 8);
}

/// Loads 16 bytes of a row of `size` columns as four words; zeros beyond the row.
AttentionBase::Values SplitEmitter::loadWords(Value from, Value offset, Value column,
                                              unsigned first, unsigned atOnce, unsigned size) {
  Type type = VectorType::get(4, b.getI32Type());
  column = add(column, int64_t(first));
  bool isWhole = first + atOnce <= size;
  Value exists = isWhole ? Value() : less(column, i32(size));
  Value safe = isWhole ? column : select(exists, column, i32(0));
  Value all = LLVM::LoadOp::create(b, loc, type, at(from, element, add(offset, wide(safe))),
                                   /*alignment=*/16);
  Values words;
  for (int i = 0; i < 4; ++i) {
    Value word = LLVM::ExtractElementOp::create(b, loc, all, i32(i));
    words.push_back(isWhole ? word : select(exists, word, i32(0)));
  }
  return words;
}

/// Adds a product of 8 x 16 and 16 x 8 elements to two sums.
void SplitEmitter::multiply(MutableArrayRef<Value> sums, ArrayRef<Value> left, Value right,
                            Value nextRight) {
  Value none = i32(0), zero = f32(0);
  Values rows{left[0], none, left[1], none}, columns{right, nextRight},
      before{sums[0], sums[1], zero, zero};
  Values after = TensorCoreEmitter::multiply(element, rows, columns, before);
  std::copy_n(after.begin(), 2, sums.begin());
}

/// Rounds two numbers to 16 bits each and packs them. Replaces them by their rounding errors.
Value SplitEmitter::packAndSubtract(Value &low, Value &high) {
  Type type = VectorType::get(2, element);
  Value pair = LLVM::PoisonOp::create(b, loc, type);
  for (auto [i, x] : {std::pair<int, Value *>{0, &low}, {1, &high}}) {
    Value rounded = fromF32(*x, element);
    *x = fsub(*x, toF32(rounded));
    pair = LLVM::InsertElementOp::create(b, loc, pair, rounded, i32(i));
  }
  return LLVM::BitcastOp::create(b, loc, b.getI32Type(), pair);
}

/// Adds 16 keys from each of `firstKeys` on to the state of a row. Sums are [c][j][2], where j is
/// the number of a column in the 8 columns that a lane loads.
void SplitEmitter::addFragments(State &state, const VisibleRow &row, ArrayRef<Values> query,
                                ValueRange firstKeys) {
  Value g = div(lane, kLanesOfRow), t = rem(lane, kLanesOfRow);
  Value keyOffset = getKeyOffset(batch, kvHead, /*isValue=*/false);
  Value valueOffset = getKeyOffset(batch, kvHead, /*isValue=*/true);
  Value keyStep = size(Args::k_row_stride), valueStep = size(Args::v_row_stride);
  // Keys beyond the part are replaced by its last key.
  auto offsetOf = [&](Value offset, Value key, Value step) {
    return add(offset, product(min(key, sub(lastKey, i32(1))), step));
  };
  SmallVector<Values> keyWords, valueWords;
  for (Value firstKey : firstKeys)
    for (unsigned n = 0; n < 2; ++n)
      for (unsigned c = 0, size = variant.headSize; c < size; c += kKeyColumns)
        keyWords.push_back(loadWords(argument(Args::k),
                                     offsetOf(keyOffset, add(add(firstKey, g), n * 8), keyStep),
                                     mul(t, width), c, kKeyColumns, variant.headSize));
  for (Value firstKey : firstKeys)
    for (unsigned c = 0, size = variant.valueSize; c < size; c += kValueColumns)
      for (unsigned r = 0; r < 4; ++r) {
        Value key = add(add(firstKey, mul(t, 2)), int64_t(r % 2 + r / 2 * 8));
        valueWords.push_back(loadWords(argument(Args::v), offsetOf(valueOffset, key, valueStep),
                                       mul(g, width), c, kValueColumns, variant.valueSize));
      }

  Values scores;
  const Values *words = keyWords.begin();
  for (Value firstKey : firstKeys)
    for (unsigned n = 0; n < 2; ++n) {
      Values products(2, f32(0));
      for (const Values &q : query) {
        const Values &k = *words++;
        for (unsigned i = 0; i < 4; i += 2)
          multiply(products, {q[i], q[i + 1]}, k[i], k[i + 1]);
      }
      for (unsigned i = 0; i < 2; ++i) {
        Value key = add(add(firstKey, mul(t, 2)), int64_t(n * 8 + i));
        Value score = finishScore(fmul(products[i], argument(Args::scale)), row, key);
        scores.push_back(select(less(key, lastKey), score, f32(kNone)));
      }
    }
  Value &maximum = state.maximum[0], &total = state.total[0], before = maximum, newest = scores[0];
  for (Value score : llvm::drop_begin(scores))
    newest = fmax(newest, score);
  for (unsigned distance = 1; distance < kLanesOfRow; distance *= 2)
    newest = fmax(newest, createShuffle(b, loc, newest, int32_t(distance)));
  maximum = fmax(before, newest);
  Value base = getBase(maximum), shrink = expOfNegative(fsub(before, base));
  total = fmul(total, shrink);
  for (Value &score : scores) {
    score = expOfNegative(fsub(score, base));
    total = fadd(total, score);
  }
  for (Value &sum : state.sums)
    sum = fmul(sum, shrink);
  const Values *fragment = valueWords.begin();
  for (unsigned u = 0; u < firstKeys.size(); ++u) {
    Values left, rest;
    for (Values *to : {&left, &rest})
      for (unsigned i = 4 * u; i < 4 * u + 4; i += 2)
        to->push_back(packAndSubtract(scores[i], scores[i + 1]));
    auto name = b.getStringAttr("llvm.nvvm.prmt");
    MutableArrayRef<Value> sums(state.sums);
    for (unsigned c = 0, size = variant.valueSize; c < size; c += kValueColumns, fragment += 4)
      for (unsigned j = 0; j < width; ++j, sums = sums.drop_front(2)) {
        auto pack = [&](unsigned r) -> Value {
          Value operands[] = {fragment[r][j / 2], fragment[r + 1][j / 2],
                              i32(j % 2 ? 0x7632 : 0x5410)};
          return LLVM::CallIntrinsicOp::create(b, loc, b.getI32Type(), name, operands).getResult(0);
        };
        Value right = pack(0), nextRight = pack(2);
        multiply(sums.take_front(2), left, right, nextRight);
        multiply(sums.take_front(2), rest, right, nextRight);
      }
  }
}

void SplitEmitter::emitFragments(Value firstRow) {
  Value g = div(lane, kLanesOfRow), t = rem(lane, kLanesOfRow);
  // Rows beyond the last row are replaced by the last row.
  VisibleRow row = getVisibleRow(min(add(firstRow, g), sub(rows, i32(1))));
  Value offset = getOffset(row.row, batch, Args::q_row_stride, variant.headSize);
  SmallVector<Values> query;
  for (unsigned c = 0, size = variant.headSize; c < size; c += kKeyColumns)
    query.push_back(loadWords(argument(Args::q), offset, mul(t, width), c, kKeyColumns, size));
  unsigned chunks = llvm::divideCeil(variant.valueSize, kValueColumns);
  State state{{f32(kNone)}, {f32(0)}, Values(chunks * width * 2, f32(0))};
  auto stateOf = [&](ValueRange list) {
    return State{{list[0]}, {list[1]}, Values(list.drop_front(2))};
  };
  // Short rows leave registers for two fragments of keys, whose loads are in flight together.
  unsigned atOnce = std::max(variant.headSize, variant.valueSize) <= 64 ? 2 : 1;
  const int64_t keysOfTurn = warps * kKeys;
  Value turns = ceilDiv(max(sub(lastKey, firstKey), i32(0)), keysOfTurn), done = i32(0);
  for (; atOnce; --atOnce) {
    Value end = mul(div(turns, atOnce), atOnce);
    state = stateOf(loop(done, end, i32(atOnce), state.list(), [&](Value turn, ValueRange before) {
      State carried = stateOf(before);
      Values keysHere;
      for (unsigned u = 0; u < atOnce; ++u)
        keysHere.push_back(
            add(firstKey, add(mul(add(turn, int64_t(u)), keysOfTurn), mul(warp, kKeys))));
      addFragments(carried, row, query, keysHere);
      return carried.list();
    }));
    done = end;
  }
  for (unsigned distance = 1; distance < kLanesOfRow; distance *= 2)
    state.total[0] = fadd(state.total[0], createShuffle(b, loc, state.total[0], int32_t(distance)));
  joinFragments(state, firstRow);
}

/// Combines the states of all warps in order. Writes the results if there is one part, else the
/// part's state.
void SplitEmitter::joinFragments(const State &state, Value firstRow) {
  Type f = b.getF32Type();
  const unsigned stride = getFragmentFloats() / (warps * kFragmentRows);
  Value g = div(lane, kLanesOfRow), t = rem(lane, kLanesOfRow);
  barrier(); // all threads have read the previous states
  branch(less(add(firstRow, g), rows), [&] {
    Value index = add(mul(warp, kFragmentRows), g);
    Value to = at(sumMemory, f, add(mul(index, stride), mul(t, 16)));
    unsigned chunks = state.sums.size() / (2 * width);
    for (unsigned c = 0; c < chunks; ++c)
      for (unsigned i = 0; i < 2; ++i)
        for (unsigned j = 0; j < width; j += 4) {
          Values fragments;
          for (unsigned k = j; k < j + 4; ++k)
            fragments.push_back(state.sums[(c * width + k) * 2 + i]);
          storeMany(at(to, f, int64_t(c * kValueColumns + i * 8 + j)), fragments);
        }
    branch(compare(Predicate::eq, t, i32(0)), [&] {
      storeMany(at(stateMemory, f, mul(index, 2)), {state.maximum[0], state.total[0]});
    });
  });
  barrier();
  const unsigned ofRow = variant.valueSize / 4;
  Value rowsHere = min(sub(rows, firstRow), i32(kFragmentRows));
  loop(thread, mul(rowsHere, ofRow), i32(threads), [&](Value number) {
    Value localRow = div(number, ofRow), column = mul(rem(number, ofRow), 4);
    Value row = add(firstRow, localRow);
    Values maxima, totals;
    Value maximum = f32(kNone), total = f32(0);
    for (unsigned w = 0; w < warps; ++w) {
      Value from = at(stateMemory, f, mul(add(localRow, int64_t(w * kFragmentRows)), 2));
      Values maximumAndTotal = loadMany(from, f, 2);
      maxima.push_back(maximumAndTotal[0]);
      totals.push_back(maximumAndTotal[1]);
      maximum = fmax(maximum, maximumAndTotal[0]);
    }
    Value base = getBase(maximum);
    Values sums(4, f32(0));
    for (unsigned w = 0; w < warps; ++w) {
      Value weight = expOfNegative(fsub(maxima[w], base));
      total = fma(weight, totals[w], total);
      Value from = add(mul(add(localRow, int64_t(w * kFragmentRows)), stride), column);
      for (auto [sum, partial] : llvm::zip_equal(sums, loadMany(at(sumMemory, f, from), f, 4)))
        sum = fma(weight, partial, sum);
    }
    branch(
        less(i32(1), used), {},
        [&] {
          Value to = getPartial(row, part);
          storeMany(at(to, f, column), sums);
          branch(compare(Predicate::eq, column, i32(0)), [&] {
            storeMany(at(to, f, getPartialSize(variant.valueSize) - 4), {maximum, total});
          });
          return Values();
        },
        [&] {
          for (unsigned i = 0; i < 4; ++i)
            writeResult(row, add(column, int64_t(i)), sums[i], maximum, total);
          return Values();
        });
  });
}
