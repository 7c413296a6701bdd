//===- AttentionScores.cpp - Visibility, scores and softmax of attention --===//

#include "AttentionEmitter.h"
#include "Threads.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

Value AttentionBase::isVisible(const VisibleRow &row, Value key, Value safeKey) {
  Value visible = less(key, row.lastKey);
  if (variant.windowed)
    visible = both(visible, compare(Predicate::sge, key, row.firstKey));
  Type i8 = b.getI8Type();
  auto isSet = [&](Value pointer, Value index) {
    Value byte = load(at(pointer, i8, index), i8);
    Value zero = arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0));
    return compare(Predicate::ne, byte, zero);
  };
  if (variant.keyMask)
    visible =
        both(visible, isSet(argument(Args::key_mask), add(product(batch, keys), wide(safeKey))));
  if (variant.mask) {
    Value begin = add(add(product(batch, argument(Args::mask_batch_stride)),
                          product(row.row.head, argument(Args::mask_head_stride))),
                      product(row.row.query, keys));
    visible = both(visible, isSet(argument(Args::mask), add(begin, wide(safeKey))));
  }
  return visible;
}

Value AttentionBase::finishScore(Value score, const VisibleRow &row, Value key) {
  const Row &queryRow = row.row;
  Value safeKey = min(key, sub(keys, i32(1)));
  if (variant.softcap) {
    Value cap = argument(Args::softcap);
    score = fmul(cap, tanh(fdiv(score, cap)));
  }
  if (biasType) {
    Value begin = add(add(product(batch, argument(Args::bias_batch_stride)),
                          product(queryRow.head, argument(Args::bias_head_stride))),
                      product(queryRow.query, keys));
    Value where = at(argument(Args::bias), biasType, add(begin, wide(safeKey)));
    score = fadd(score, toF32(load(where, biasType)));
  }
  if (slopesType) {
    // Exact in f32, because the integers are below 2^24.
    Value position = add(queryRow.query, size(Args::slopes_offset));
    if (before)
      position = add(position, narrow(before));
    Value distance = sub(key, position);
    Value slope = load(at(argument(Args::slopes), slopesType, queryRow.head), slopesType);
    Value step = arith::SIToFPOp::create(b, loc, b.getF32Type(), distance);
    score = fadd(score, fmul(toF32(slope), step));
  }
  return select(isVisible(row, key, safeKey), score, f32(kNone));
}

void TileEmitter::finishScores(Values &scores, Value firstKey) {
  for (unsigned c = 0; c < kKeysOfLane; ++c) {
    Value key = add(add(firstKey, keyLane), int64_t(c * kKeyLanes));
    for (unsigned r = 0; r < rowsOfThread; ++r) {
      Value &score = scores[r * kKeysOfLane + c];
      score = finishScore(score, rowsHere[r], key);
    }
  }
}

/// Adds over the lanes that share rows, in a tree.
Value TileEmitter::getSumOverKeys(Value value) {
  for (int32_t bits = kKeyLanes / 2; bits; bits /= 2)
    value = fadd(value, createShuffle(b, loc, value, bits));
  return value;
}

TileEmitter::Values TileEmitter::State::list() const {
  Values all(maximum);
  llvm::append_range(all, total);
  llvm::append_range(all, sums);
  return all;
}

TileEmitter::State TileEmitter::getState(ValueRange list) const {
  return {Values(list.take_front(rowsOfThread)), Values(list.slice(rowsOfThread, rowsOfThread)),
          Values(list.drop_front(2 * rowsOfThread))};
}

void TileEmitter::addTile(State &state, Value firstKey) {
  Values scores(rowsOfThread * kKeysOfLane, f32(0));
  for (const Panel &panel : keyPanels) {
    barrier(); // all threads have read the previous panel
    stageKeys(panel, Args::k, Args::k_row_stride, keyOffset, keysAtOnce, firstKey);
    barrier();
    scores = multiplyKeys(panel, scores);
  }
  finishScores(scores, firstKey);

  unsigned perRow = sumsOfRow();
  for (unsigned r = 0; r < rowsOfThread; ++r) {
    MutableArrayRef<Value> rowScores =
        MutableArrayRef<Value>(scores).slice(r * kKeysOfLane, kKeysOfLane);
    Value maximum = rowScores[0];
    for (Value score : rowScores.drop_front())
      maximum = fmax(maximum, score);
    for (int32_t bits = kKeyLanes / 2; bits; bits /= 2)
      maximum = fmax(maximum, createShuffle(b, loc, maximum, bits));
    maximum = fmax(state.maximum[r], maximum);
    // If no key was visible so far, all powers are 0.
    Value base = select(equals(maximum, f32(kNone)), f32(0), maximum);
    Value shrink = expOfNegative(fsub(state.maximum[r], base));
    state.maximum[r] = maximum;
    Value total = fmul(state.total[r], shrink);
    for (auto [c, score] : llvm::enumerate(rowScores)) {
      Value power = expOfNegative(fsub(score, base));
      total = fadd(total, power);
      storeMany(at(at(powerMemory, b.getF32Type(), keyLane), b.getF32Type(),
                   int64_t(r * kKeysOfTile + c * kKeyLanes)),
                {power});
    }
    state.total[r] = total;
    for (unsigned i = 0; i < perRow; ++i)
      state.sums[r * perRow + i] = fmul(state.sums[r * perRow + i], shrink);
  }

  unsigned first = 0;
  for (const Panel &panel : valuePanels) {
    barrier(); // all threads have written their powers
    stageKeys(panel, Args::v, Args::v_row_stride, valueOffset, valuesAtOnce, firstKey);
    barrier();
    addValues(panel, first, state.sums);
    first += panel.perLane;
  }
}
