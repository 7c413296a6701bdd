//===- AttentionTensorTiles.h - Attention on tensor cores -------*- C++ -*-===//
//
// Computes many rows of f16 or bf16 with the structure of FlashAttention-2 (Dao 2023): the loop of
// AttentionEmitter.h, where both matmuls are instructions of tensor cores and each warp has rows of
// its own, so that only loads of keys and values need barriers.
//
//   queries -> shared memory -> fragments in registers, for the whole loop
//   for tiles of keys that are visible to some row
//     keys and values of the next tile -> the other stage of shared memory, by asynchronous copies
//     scores = queries keys^T                            fragments of keys by ldmatrix
//     softmax of scores in f32, as powers of 2: exp(s - maximum) = 2^(s factor - maximum factor)
//     sums += powers values                              fragments of values by ldmatrix.trans
//
// The fragments of scores (C) become fragments of powers (A) without exchanges between lanes.
// Powers are rounded to the element type, the sums and the total are f32.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_ATTENTIONTENSORTILES_H
#define TPC_LIB_CONVERSION_CUDA_ATTENTIONTENSORTILES_H

#include "AttentionEmitter.h"

namespace mlir::tpc::cuda {

class TensorTileEmitter : AttentionBase {
public:
  TensorTileEmitter(ModuleOp module, const AttentionVariant &variant);
  Launch emit(StringRef name);

private:
  /// State of a lane that is carried from tile to tile. A lane has 2 rows of each 16 rows of its
  /// warp; `sums` are fragments of C.
  struct State {
    Values maximum, total, sums;
    // During the loop: scores of this tile, which addSoftmax replaces by powers, and its stage.
    Values scores;
    Value stage; // 0 or 1
    Values list() const;
  };
  State getState(ValueRange list) const;

  /// A copy of rows into shared memory; missing rows become zeros.
  struct Copy {
    const TileLayout &layout;
    Value to;
    Value isAligned; // whether 16 bytes may be read by one access; null: never
    Value step;      // distance of rows in elements; null: varies
    function_ref<Value(Value)> getRow, exists; // pointer to a row, and whether it exists
  };
  void copy(const Copy &copy);
  void copyChunk(const Copy &copy, Value row, Value chunk);
  /// Writes zeros to the chunks without elements, which copies never write.
  void clearPadding(const TileLayout &layout, Value tile);

  void emitItem(Value item);
  void beginItem(Value item);
  /// Computes the rows over the keys [begin, end), which are not empty.
  State computeRows(Value begin, Value end);
  void copyQueries();
  void copyKeys(Value firstKey, Value stage, bool isValue);
  void loadQueries();
  Values readQueries(unsigned rowTile, unsigned step);
  Values getQueries(unsigned rowTile, unsigned step);
  Values multiplyKeys(Value stage);
  void finishScores(Values &scores, Value firstKey);
  void addSoftmax(State &state);
  void addValues(State &state);
  void writeResult(State &state);
  Value getSumOverLanes(Value value);
  Value getMaximumOverLanes(Value value);
  Value getTile(Value memory, const TileLayout &layout, Value stage);
  /// Returns which row of the block is row `index` of this lane.
  Value getRowOfLane(unsigned index);

  unsigned rowTiles() const { return tile.rows / (tile.warps * kMmaRows); }
  unsigned rowsOfLane() const { return 2 * rowTiles(); }
  unsigned keyBlocks() const { return tile.keys / kMmaColumns; }
  unsigned valueBlocks() const { return valueLayout.chunks; }

  const TensorTile tile;
  const TileLayout queryLayout, keyLayout, valueLayout;
  const bool isPlain; // scores have no steps other than causality and windows
  const unsigned threads;

  // Values of the launch.
  Value queryMemory, keyMemory, valueMemory;
  // Values of the work item.
  Value queriesAligned, keysAligned, valuesAligned;
  LaneOffsets queryOffsets, keyOffsets, valueOffsets;
  Value factor; // from scores to exponents of 2
  Value signs;  // bits that negate queries if the scale is negative
  Value laneRow, laneColumn;
  Value firstRow;
  Value keysHere; // end of the keys that may be read
  SmallVector<VisibleRow> rowsHere;
  /// Keys that are visible to all rows of a row tile: [first, last).
  SmallVector<std::pair<Value, Value>> commonKeys;
  Values queryFragments;
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_ATTENTIONTENSORTILES_H
