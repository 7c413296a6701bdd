//===- AttentionTensorCopies.cpp - Tiles of attention in shared memory ----===//

#include "AttentionTensorTiles.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

/// Returns the number of threads that copy a row.
static unsigned getThreadsOfRow(const TileLayout &layout) {
  return llvm::PowerOf2Ceil(layout.usedChunks);
}

Value TensorTileEmitter::getTile(Value memory, const TileLayout &layout, Value stage) {
  return at(memory, b.getI8Type(), mul(stage, layout.getBytes()));
}

void TensorTileEmitter::clearPadding(const TileLayout &layout, Value tile) {
  Value word = i32(0);
  for (unsigned chunk = layout.usedChunks; chunk < layout.chunks; ++chunk)
    loop(thread, i32(layout.rows), i32(threads), [&](Value row) {
      storeMany(at(tile, b.getI8Type(), getChunkOffset(layout, row, i32(chunk))),
                {word, word, word, word});
    });
}

/// Copies the chunk of a row by single elements; missing elements become zeros.
void TensorTileEmitter::copyChunk(const Copy &copy, Value row, Value chunk) {
  SmallVector<Type> types(kChunkElements, element);
  Value zero = arith::ConstantOp::create(b, loc, b.getFloatAttr(element, 0));
  Values values = branch(
      copy.exists(row), types,
      [&] {
        Values loaded;
        Value from = copy.getRow(row);
        for (unsigned i = 0; i < kChunkElements; ++i) {
          Value column = add(mul(chunk, kChunkElements), int64_t(i));
          Value safe = min(column, i32(copy.layout.size - 1));
          Value value = load(at(from, element, safe), element);
          loaded.push_back(select(less(column, i32(copy.layout.size)), value, zero));
        }
        return loaded;
      },
      [&] { return Values(kChunkElements, zero); });
  storeMany(at(copy.to, b.getI8Type(), getChunkOffset(copy.layout, row, chunk)), values);
}

void TensorTileEmitter::copy(const Copy &copy) {
  const TileLayout &layout = copy.layout;
  unsigned ofRow = getThreadsOfRow(layout), rowsAtOnce = threads / ofRow;
  Value firstRow = div(thread, ofRow), chunk = rem(thread, ofRow);
  // In shared memory, rows whose numbers differ by a multiple of 8 are at a constant distance.
  unsigned period = std::max(8 / rowsAtOnce, 1u);
  Values addresses;
  for (unsigned i = 0; i < period; ++i) {
    Value offset = getChunkOffset(layout, add(firstRow, int64_t(i * rowsAtOnce)), chunk);
    addresses.push_back(at(copy.to, b.getI8Type(), offset));
  }
  auto copyAligned = [&] {
    Value from, column = mul(chunk, kChunkElements);
    for (unsigned i = 0; i * rowsAtOnce < layout.rows; ++i) {
      Value row = add(firstRow, int64_t(i * rowsAtOnce));
      auto one = [&] {
        Value bytes = select(copy.exists(row), i32(kChunkBytes), i32(0));
        unsigned distance = i / period * period * rowsAtOnce * layout.rowBytes;
        copyAsync(at(addresses[i % period], b.getI8Type(), int64_t(distance)), from, bytes);
      };
      if (i && copy.step)
        from = at(from, element, mul(wide(copy.step), rowsAtOnce));
      else
        from = at(copy.getRow(row), element, column);
      if (layout.rows % rowsAtOnce)
        branch(less(row, i32(layout.rows)), one);
      else
        one();
    }
    return Values();
  };
  // This path is rare. It recomputes its values, so that they occupy no registers elsewhere.
  auto copyElements = [&] {
    auto values = std::tie(arguments, keys, queries, kvHeads, group, rows, pairs, batch, kvHead);
    std::tuple<Values, Value, Value, Value, Value, Value, Value, Value, Value> saved = values;
    loadArguments();
    computeSizes();
    batch = div(pair, kvHeads);
    kvHead = rem(pair, kvHeads);
    loop(firstRow, i32(layout.rows), i32(rowsAtOnce),
         [&](Value row) { copyChunk(copy, row, chunk); });
    values = saved;
    return Values();
  };
  auto copyOwn = [&] {
    if (copy.isAligned)
      branch(copy.isAligned, {}, copyAligned, copyElements);
    else
      copyElements();
  };
  if (ofRow == layout.usedChunks)
    copyOwn();
  else
    branch(less(chunk, i32(layout.usedChunks)), copyOwn);
}

void TensorTileEmitter::copyQueries() {
  auto getPointer = [&](Value row) {
    // Missing rows are replaced by the last row, which is not read.
    Value safe = min(add(firstRow, row), sub(rows, i32(1)));
    return at(argument(Args::q), element,
              getOffset(getRow(safe, kvHead), batch, Args::q_row_stride, variant.headSize));
  };
  copy({.layout = queryLayout,
        .to = queryMemory,
        .isAligned = queriesAligned,
        .step = {},
        .getRow = getPointer,
        .exists = [&](Value row) { return less(add(firstRow, row), rows); }});
}

void TensorTileEmitter::copyKeys(Value firstKey, Value stage, bool isValue) {
  const TileLayout &layout = isValue ? valueLayout : keyLayout;
  // Loaded for each tile, so that no registers keep its multiples during the loop over keys.
  Value step = narrow(loadArgument(isValue ? Args::v_row_stride : Args::k_row_stride));
  auto getPointer = [&](Value row) {
    Value first =
        at(argument(isValue ? Args::v : Args::k), element, getKeyOffset(batch, kvHead, isValue));
    return at(first, element, product(add(firstKey, row), step));
  };
  copy({.layout = layout,
        .to = getTile(isValue ? valueMemory : keyMemory, layout, stage),
        .isAligned = isValue ? valuesAligned : keysAligned,
        .step = step,
        .getRow = getPointer,
        .exists = [&](Value row) { return less(add(firstKey, row), keysHere); }});
}

//===----------------------------------------------------------------------===//
// Fragments of queries
//===----------------------------------------------------------------------===//

void TensorTileEmitter::loadQueries() {
  queryFragments.clear();
  bool inRegisters = tile.queriesInRegisters;
  for (unsigned t = 0; inRegisters && t < rowTiles(); ++t)
    for (unsigned step = 0; step < queryLayout.chunks / 2; ++step)
      llvm::append_range(queryFragments, readQueries(t, step));
}

AttentionBase::Values TensorTileEmitter::readQueries(unsigned rowTile, unsigned step) {
  Values words = loadMatrices(queryMemory, queryOffsets, rowTile * kMmaRows, 2 * step,
                              /*transposed=*/false);
  if (signs)
    for (Value &word : words)
      word = arith::XOrIOp::create(b, loc, word, signs);
  return words;
}

AttentionBase::Values TensorTileEmitter::getQueries(unsigned rowTile, unsigned step) {
  if (!tile.queriesInRegisters)
    return readQueries(rowTile, step);
  size_t first = (rowTile * queryLayout.chunks / 2 + step) * 4;
  return Values(ArrayRef<Value>(queryFragments).slice(first, 4));
}
