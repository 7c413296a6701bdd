//===- AttentionEmitter.h - Attention by blocks of threads ------*- C++ -*-===//
//
// A block holds some rows of scaled queries in shared memory and goes over keys, 64 at a time:
//
//   for keys in tiles that some row sees
//     for panels of 64 columns of the head:  keys -> panel;  scores += queries keys^T
//     softcap, bias, slopes; invisible scores become -infinity
//     most' = max(most, scores);  powers = exp(scores - most')
//     total = total exp(most - most') + powers;  sums = sums exp(most - most')
//     for panels of 64 columns of values:    values -> panel;  sums += powers values
//   result = sums / total
//
// (Milakov and Gimelshein 2018; Dao et al. 2022 and, for the loop over keys inside, 2023.) All
// arithmetic is in f32, whatever the elements are. A warp has 2 x R rows: lanes 0 to 15 the first
// R, the others the rest. Lane l of 16 has scores of keys l, l + 16, l + 32, l + 48, and sums of
// adjacent columns of values, so that what a lane computes needs R + 4 reads of 16 bytes for 16 R
// products.
//
// Bank conflicts: rows of keys are an odd number of 16 bytes long, so that 8 lanes that read 16
// bytes of 8 rows meet all banks once; the powers of the two halves of a warp lie 16 banks apart;
// queries are the same for all lanes that read together.
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

/// What all kernels of attention read first.
class AttentionBase : protected ThreadEmitter {
protected:
  using Args = abi::Layout<tpc_attention_args>;

  AttentionBase(ModuleOp module, const AttentionVariant &variant);

  void begin(StringRef name, unsigned threads);
  Value argument(Args::Place place) const { return arguments[place]; }
  /// An argument that fits into 32 bits.
  Value size(Args::Place place) { return narrow(argument(place)); }
  /// Rows of a kv head, and kv heads of all batches.
  struct Row {
    Value query, head; // in its batch
  };
  Row getRow(Value row, Value kvHead);
  /// Where a row's part of q or the result begins, in elements.
  Value getOffset(const Row &row, Value batch, Args::Place stride, int64_t elements);
  /// Where keys, or values, of a kv head begin.
  Value getKeyOffset(Value batch, Value kvHead, bool isValue);
  /// Means of columns of values, over all keys.
  Values getMeans(Value batch, Value kvHead, ArrayRef<Value> columns);
  Value getPartial(Value pair, Value row, Value part);
  /// In elements, as 64 bits.
  Value product(Value x, Value y) { return mul(wide(x), wide(y)); }

  const AttentionVariant &variant;
  Type element, biasType, slopesType; // in memory; null: there is none
  Values arguments;
  Value workspace, thread, lane, warp;
  Value keys, queries, kvHeads, group, rows, pairs, parts;
};

/// Combines what parts of the keys gave.
class CombineEmitter : AttentionBase {
public:
  CombineEmitter(ModuleOp module, const AttentionVariant &variant)
      : AttentionBase(module, variant) {}
  Launch emit(StringRef name);
};

/// Rows by blocks, over all keys or over a part of them.
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
  /// A copy into shared memory: rows of a panel, those that are not there as zeros.
  struct Stage {
    Panel panel;
    unsigned rows = 0;
    Value from, to;
    Value atOnce;                              // whether 16 bytes may be read at once; null: never
    Value scale;                               // null: none
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
  /// Carried from tile to tile.
  struct State {
    Values most, total, sums;
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

  // Of the launch.
  Value keysAtOnce, valuesAtOnce, queriesAtOnce, resultAtOnce;
  Value queryMemory, panelMemory, powerMemory;
  Value keyLane, half;
  // Of the item.
  Value batch, kvHead, pair, firstRow, part;
  Value keyOffset, valueOffset;
  Value before;   // keys that stand before the sequence's first query: its length; null: none
  Value keysHere; // those that may be read
  SmallVector<Row> rowsHere;
  Values lastKeys,
      firstKeys; // of rows: those that they see lie between; only where it is asked for
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H
