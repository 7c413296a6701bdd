//===- AttentionTiles.cpp - Queries, keys and values in shared memory -----===//

#include "AttentionEmitter.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using namespace ::tpc::attention;

static constexpr unsigned kColumnsOfPanel = 64;
/// Number of reads in flight per thread.
static constexpr unsigned kInFlight = 8;

/// Number of rows per thread. More rows need fewer reads of shared memory for each multiplication.
/// Registers suffice for 8 rows if heads are small and the scores have few extra steps.
static unsigned getRowsOfThread(const AttentionVariant &variant) {
  bool isPlain = !variant.windowed && !variant.mask && !variant.softcap && variant.bias < 0 &&
                 variant.slopes < 0;
  return variant.valueSize <= 64 && isPlain ? 8 : 4;
}

static unsigned roundUp(unsigned n, unsigned step) { return (n + step - 1) / step * step; }

TileEmitter::TileEmitter(ModuleOp module, const AttentionVariant &variant)
    : AttentionBase(module, variant) {
  rowsOfThread = getRowsOfThread(variant);
  rowsOfBlock = kRowsOfTile;
  warps = rowsOfBlock / (2 * rowsOfThread);
  threads = warps * 32;
  for (unsigned begin = 0, size = variant.headSize; begin < size; begin += kColumnsOfPanel) {
    Panel panel{.begin = begin};
    panel.width = std::min<unsigned>(kColumnsOfPanel, size - begin);
    panel.padded = roundUp(panel.width, 4);
    panel.stride = panel.padded / 4 % 2 ? panel.padded : panel.padded + 4;
    keyPanels.push_back(panel);
  }
  for (unsigned begin = 0, size = variant.valueSize; begin < size; begin += kColumnsOfPanel) {
    Panel panel{.begin = begin};
    panel.width = std::min<unsigned>(kColumnsOfPanel, size - begin);
    panel.perLane = panel.width > 2 * kKeyLanes ? 4 : panel.width > kKeyLanes ? 2 : 1;
    panel.padded = panel.stride = panel.perLane * kKeyLanes;
    valuePanels.push_back(panel);
  }
  for (const auto &panels : {keyPanels, valuePanels})
    for (const Panel &panel : panels)
      panelFloats = std::max(panelFloats, kKeysOfTile * panel.stride);
  queryStride = roundUp(variant.headSize, 4);
}

unsigned TileEmitter::sumsOfRow() const {
  unsigned count = 0;
  for (const Panel &panel : valuePanels)
    count += panel.perLane;
  return count;
}

//===----------------------------------------------------------------------===//
// Copies into shared memory
//===----------------------------------------------------------------------===//

/// Copies chunks of `width` elements; chunks are assigned to threads in order.
void TileEmitter::stageChunks(const Stage &stage, unsigned width) {
  const Panel &panel = stage.panel;
  unsigned ofRow = panel.padded / width, all = stage.rows * ofRow;
  unsigned chunksOfThread = (all + threads - 1) / threads,
           inFlight = std::min(chunksOfThread, kInFlight);
  bool isEven = threads % ofRow == 0;
  Value row0 = div(thread, ofRow), column0 = mul(rem(thread, ofRow), width);
  auto copySome = [&](Value firstChunk) {
    struct Chunk {
      Value row, column, isInTile;
      Values values;
    };
    SmallVector<Chunk> chunks;
    for (unsigned i = 0; i < inFlight; ++i) {
      Chunk chunk;
      Value number = add(firstChunk, i);
      if (isEven) {
        chunk.row = add(row0, mul(number, threads / ofRow));
        chunk.column = column0;
      } else {
        Value linear = add(thread, mul(number, threads));
        chunk.row = div(linear, ofRow);
        chunk.column = mul(rem(linear, ofRow), width);
      }
      if (all % (threads * inFlight))
        chunk.isInTile = less(chunk.row, i32(stage.rows));
      Value exists = both(stage.exists(chunk.row), chunk.isInTile);
      if (panel.padded != panel.width)
        exists = both(exists, less(chunk.column, i32(panel.width)));
      SmallVector<Type> types(width, b.getF32Type());
      chunk.values = branch(
          exists, types,
          [&] {
            Value offset = add(stage.offset(chunk.row), wide(add(chunk.column, panel.begin)));
            Values values = loadMany(at(stage.from, element, offset), element, width);
            for (Value &value : values)
              value = toF32(value);
            return values;
          },
          [&] { return Values(width, f32(0)); });
      chunks.push_back(std::move(chunk));
    }
    for (Chunk &chunk : chunks) {
      if (stage.scale)
        for (Value &value : chunk.values)
          value = fmul(value, stage.scale);
      auto store = [&] {
        Value elementOffset = add(mul(chunk.row, panel.stride), chunk.column);
        Value to = at(stage.to, b.getF32Type(), elementOffset);
        for (unsigned i = 0; i < width; i += 4)
          storeMany(at(to, b.getF32Type(), int64_t(i)),
                    ArrayRef<Value>(chunk.values).slice(i, std::min(4u, width - i)));
      };
      if (chunk.isInTile)
        branch(chunk.isInTile, store);
      else
        store();
    }
  };
  if (chunksOfThread == inFlight)
    copySome(i32(0));
  else
    loop(i32(0), i32(chunksOfThread), i32(inFlight), copySome);
}

void TileEmitter::stage(const Stage &stage) {
  if (!stage.atOnce) {
    stageChunks(stage, 1);
    return;
  }
  auto by = [&](unsigned width) {
    stageChunks(stage, width);
    return Values();
  };
  unsigned width = kWideBytes / (element.getIntOrFloatBitWidth() / 8);
  branch(stage.atOnce, {}, [&] { return by(width); }, [&] { return by(1); });
}

void TileEmitter::stageQueries() {
  Value from = argument(Args::q), scale = argument(Args::scale);
  auto offset = [&](Value row) {
    return getOffset(getRow(add(firstRow, row), kvHead), batch, Args::q_row_stride,
                     variant.headSize);
  };
  auto exists = [&](Value row) { return less(add(firstRow, row), rows); };
  // Here, all columns are one panel.
  unsigned width = variant.headSize;
  stage({.panel = {.width = width, .padded = queryStride, .stride = queryStride},
         .rows = rowsOfBlock,
         .from = from,
         .to = queryMemory,
         .atOnce = queriesAtOnce,
         .scale = scale,
         .offset = offset,
         .exists = exists});
}

void TileEmitter::stageKeys(const Panel &panel, Args::FieldIndex pointer, Args::FieldIndex stride,
                            Value offset, Value atOnce, Value firstKey) {
  Value from = argument(pointer), step = size(stride);
  auto exists = [&](Value row) { return less(add(firstKey, row), keysHere); };
  stage({.panel = panel,
         .rows = kKeysOfTile,
         .from = from,
         .to = panelMemory,
         .atOnce = atOnce,
         .scale = {},
         .offset = [&](Value row) { return add(offset, product(add(firstKey, row), step)); },
         .exists = exists});
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

TileEmitter::Values TileEmitter::multiplyKeys(const Panel &panel, ValueRange scores) {
  Type f = b.getF32Type();
  Value ownQueries = at(
      queryMemory, f, mul(add(mul(warp, 2 * rowsOfThread), mul(half, rowsOfThread)), queryStride));
  Value ownKeys = at(panelMemory, f, mul(keyLane, panel.stride));
  return loop(i32(0), i32(panel.padded), i32(4), scores, [&](Value column, ValueRange before) {
    Values after(before), key[kKeysOfLane];
    for (unsigned c = 0; c < kKeysOfLane; ++c)
      key[c] = loadMany(at(at(ownKeys, f, column), f, int64_t(c * kKeyLanes * panel.stride)), f, 4);
    for (unsigned r = 0; r < rowsOfThread; ++r) {
      Values query =
          loadMany(at(at(ownQueries, f, column), f, int64_t(r * queryStride + panel.begin)), f, 4);
      for (unsigned c = 0; c < kKeysOfLane; ++c)
        for (unsigned i = 0; i < 4; ++i) {
          Value &score = after[r * kKeysOfLane + c];
          score = fma(query[i], key[c][i], score);
        }
    }
    return after;
  });
}

/// Adds to the sums of a panel's columns; other sums are unchanged.
void TileEmitter::addValues(const Panel &panel, unsigned first, Values &sums) {
  Type f = b.getF32Type();
  unsigned perLane = panel.perLane, perRow = sumsOfRow();
  Values panelSums;
  for (unsigned r = 0; r < rowsOfThread; ++r)
    for (unsigned i = 0; i < perLane; ++i)
      panelSums.push_back(sums[r * perRow + first + i]);
  Value firstValues = at(panelMemory, f, mul(keyLane, perLane));
  panelSums = loop(i32(0), i32(kKeysOfTile), i32(4), panelSums, [&](Value key, ValueRange before) {
    Values after(before), powers[8];
    for (unsigned r = 0; r < rowsOfThread; ++r)
      powers[r] = loadMany(at(at(powerMemory, f, key), f, int64_t(r * kKeysOfTile)), f, 4);
    Value values = at(firstValues, f, mul(key, panel.stride));
    for (unsigned k = 0; k < 4; ++k) {
      Values value = loadMany(at(values, f, int64_t(k * panel.stride)), f, perLane);
      for (unsigned r = 0; r < rowsOfThread; ++r)
        for (unsigned i = 0; i < perLane; ++i) {
          Value &sum = after[r * perLane + i];
          sum = fma(powers[r][k], value[i], sum);
        }
    }
    return after;
  });
  for (unsigned r = 0; r < rowsOfThread; ++r)
    for (unsigned i = 0; i < perLane; ++i)
      sums[r * perRow + first + i] = panelSums[r * perLane + i];
}
