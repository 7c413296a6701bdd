//===- AttentionEmitter.h - Emitter of attention kernels --------*- C++ -*-===//
//
// A block keeps some rows of scaled queries in shared memory and iterates over keys, 64 at a time:
//
//   for keys in tiles that are visible to some row
//     for panels of 64 columns of the head:  keys -> panel;  scores += queries keys^T
//     softcap, bias, slopes; invisible scores become -infinity
//     maximum' = max(maximum, scores);       powers = exp(scores - maximum')
//     shrink = exp(maximum - maximum');      total = total shrink + powers;  sums = sums shrink
//     for panels of 64 columns of values:    values -> panel;  sums += powers values
//   result = sums / total
//
// (Milakov and Gimelshein 2018; Dao et al. 2022 and, for the inner loop over keys, 2023.) All
// arithmetic is in f32 for all element types. A warp has 2 x R rows: lanes 0 to 15 compute the
// first R, the others the rest. Lane l of 16 has the scores of keys l, l + 16, l + 32, l + 48, and
// sums of adjacent columns of values. So a lane needs R + 4 reads of 16 bytes for 16 R
// multiplications.
//
// Bank conflicts: the length of key rows is an odd multiple of 16 bytes, so that 8 lanes that read
// 16 bytes of 8 rows access each bank once. The powers of the two halves of a warp are 16 banks
// apart. Queries are the same for all lanes that read together.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H
#define TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H

#include "ThreadEmitter.h"
#include "tpc/Conversion/Cuda/Attention.h"
#include "tpc/Conversion/Env/RuntimeAbi.h"

namespace mlir::tpc::cuda {

inline constexpr unsigned kKeysOfTile = 64, kKeyLanes = 16;
inline constexpr unsigned kKeysOfLane = kKeysOfTile / kKeyLanes;

/// Arguments and index arithmetic that all attention kernels share.
class AttentionBase : protected ThreadEmitter {
protected:
  using Args = abi::Layout<tpc_attention_args>;

  AttentionBase(ModuleOp module, const AttentionVariant &variant);

  void begin(StringRef name, unsigned threads);
  Value argument(Args::Place place) const { return arguments[place]; }
  /// Returns an argument that fits into 32 bits.
  Value size(Args::Place place) { return narrow(argument(place)); }
  /// Rows of a KV head, and KV heads of all batches.
  struct Row {
    Value query, head; // in its batch
  };
  Row getRow(Value row, Value kvHead);
  /// Returns the offset of a row in q or in the result, in elements.
  Value getOffset(const Row &row, Value batch, Args::Place stride, int64_t elements);
  /// Returns the offset of the keys, or values, of a KV head.
  Value getKeyOffset(Value batch, Value kvHead, bool isValue);
  /// Returns the means of columns of values, over all keys.
  Values getMeans(Value batch, Value kvHead, ArrayRef<Value> columns);
  Value getPartial(Value pair, Value row, Value part);
  /// Returns a 64-bit product, in elements.
  Value product(Value x, Value y) { return mul(wide(x), wide(y)); }

  const AttentionVariant &variant;
  Type element, biasType, slopesType; // in memory; null: absent
  Values arguments;
  Value workspace, thread, lane, warp;
  Value keys, queries, kvHeads, group, rows, pairs, parts;
};

/// Combines the partial results of splits of the keys.
class CombineEmitter : AttentionBase {
public:
  CombineEmitter(ModuleOp module, const AttentionVariant &variant)
      : AttentionBase(module, variant) {}
  Launch emit(StringRef name);
};

/// Computes tiles of rows, over all keys or over one split of them.
class TileEmitter : AttentionBase {
public:
  TileEmitter(ModuleOp module, const AttentionVariant &variant, bool isSplit);
  Launch emit(StringRef name);

private:
  /// Adjacent columns of a head.
  struct Panel {
    unsigned begin = 0, width = 0;
    unsigned padded = 0;  // with zeros
    unsigned stride = 0;  // of rows in shared memory
    unsigned perLane = 0; // of values: columns of a lane
  };
  /// A copy of a panel's rows into shared memory; missing rows become zeros.
  struct Stage {
    Panel panel;
    unsigned rows = 0;
    Value from, to;
    Value atOnce; // whether 16 bytes may be read by one access; null: never
    Value scale;  // null: none
    function_ref<Value(Value)> offset, exists; // of a row
  };
  void stage(const Stage &stage);
  void stageChunks(const Stage &stage, unsigned width);
  Value isAligned(Args::Place pointer, ArrayRef<Args::Place> strides, int64_t elements,
                  unsigned bytes);
  Value areKeysAligned(bool isValue, unsigned bytes);

  void emitItem(Value item);
  void stageQueries();
  void stageKeys(const Panel &panel, Args::Place pointer, Args::Place stride, Value offset,
                 Value atOnce, Value firstKey);
  Values multiplyKeys(const Panel &panel, ValueRange scores);
  void finishScores(Values &scores, Value firstKey);
  Value isVisible(unsigned row, Value key, Value safeKey);
  /// State that is carried from tile to tile.
  struct State {
    Values maximum, total, sums;
    Values list() const;
  };
  State getState(ValueRange list) const;
  void addTile(State &state, Value firstKey);
  void addValues(const Panel &panel, unsigned first, Values &sums);
  void writeResult(const State &state);
  void writePartial(const State &state);
  Value getSumOverKeys(Value value);

  unsigned sumsOfRow() const;

  bool isSplit;
  unsigned rowsOfThread, warps, threads, rowsOfBlock;
  SmallVector<Panel, 4> keyPanels, valuePanels;
  unsigned queryStride = 0, panelFloats = 0;

  // Values of the launch.
  Value keysAtOnce, valuesAtOnce, queriesAtOnce, resultAtOnce;
  Value queryMemory, panelMemory, powerMemory;
  Value keyLane, half;
  // Values of the work item.
  Value batch, kvHead, pair, firstRow, part;
  Value keyOffset, valueOffset;
  Value before;   // number of keys before the sequence's first query: its length; null: none
  Value keysHere; // keys that may be read
  SmallVector<Row> rowsHere;
  // Visible keys of each row: [firstKeys, lastKeys); firstKeys only with windows.
  Values lastKeys, firstKeys;
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H
