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
// arithmetic is in f32 for all element types. A warp has 2 R rows (R is rowsOfThread): lanes 0 to
// 15 compute the first R, lanes 16 to 31 the others. Lane l of 16 has the scores of keys l, l + 16,
// l + 32, l + 48, and sums of adjacent columns of values. For 4 columns of the head, a lane reads
// 16 bytes of R queries and of 4 keys, and does 16 R multiplications.
//
// Bank conflicts: the length of key rows is an odd multiple of 16 bytes, so that 8 lanes that read
// 16 bytes of 8 rows access each bank once. The powers of the two halves of a warp are 16 banks
// apart. Lanes that read together read the same queries, which are broadcast.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H
#define TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H

#include "TensorCores.h"
#include "tpc/Conversion/Cuda/Attention.h"
#include "tpc/Conversion/Env/RuntimeAbi.h"

namespace mlir::tpc::cuda {

inline constexpr unsigned kKeysOfTile = 64, kKeyLanes = 16;
inline constexpr unsigned kKeysOfLane = kKeysOfTile / kKeyLanes;
/// Bytes of a vector load of one thread.
inline constexpr unsigned kWideBytes = 16;
/// Score of a key that is not visible.
inline constexpr double kNone = -std::numeric_limits<double>::infinity();

/// Arguments and index arithmetic that all attention kernels share.
class AttentionBase : protected TensorCoreEmitter {
protected:
  using Args = abi::Layout<tpc_attention_args>;

  AttentionBase(ModuleOp module, const AttentionVariant &variant);

  LLVM::LLVMFuncOp begin(StringRef name, unsigned parameters, unsigned threads);
  /// Load one or all arguments. Loads after a barrier are not merged with those before it, so that
  /// no registers keep their results in between.
  Value loadArgument(Args::FieldIndex field);
  void loadArguments();
  /// Sets the members from `keys` to `pairs` from the arguments.
  void computeSizes();
  Value argument(Args::FieldIndex field) const { return arguments[field]; }
  /// Returns an argument that fits into 32 bits.
  Value size(Args::FieldIndex field) { return narrow(argument(field)); }
  /// Query and head of a row. The rows of a KV head are the query heads of its group, for each
  /// query.
  struct Row {
    Value query, head; // in its batch
  };
  Row getRow(Value row, Value kvHead);
  /// Returns the offset of a row in q or in the result, in elements.
  Value getOffset(const Row &row, Value batch, Args::FieldIndex stride, int64_t elements);
  /// Returns the offset of the keys, or values, of a KV head.
  Value getKeyOffset(Value batch, Value kvHead, bool isValue);
  /// Returns whether each row of a tensor begins at a multiple of `bytes`; null: never.
  Value isAligned(Args::FieldIndex pointer, ArrayRef<Args::FieldIndex> strides, int64_t elements,
                  unsigned bytes);
  Value areKeysAligned(bool isValue, unsigned bytes);
  /// Sets the work item's pair of sequence and KV head, and the number of keys before its first
  /// query.
  void beginPair(Value newPair);
  /// Returns query + offset + 1 (plus the sequence's length), clamped to [0, keys]: the end of the
  /// keys that are visible to a causal query, or the first key of a window.
  Value getLimit(Value query, Args::FieldIndex offset);
  /// A row and its visible keys: [firstKey, lastKey); firstKey only with windows.
  struct VisibleRow {
    Row row;
    Value firstKey, lastKey;
  };
  VisibleRow getVisibleRow(Value row);
  /// Applies the steps between the matmul and the softmax, in the order of tpc.attention. `key` may
  /// be out of bounds; reads use the last key instead.
  Value finishScore(Value score, const VisibleRow &row, Value key);
  /// Adds the row's sink to the maximum and the total of its softmax. Returns the factor of the
  /// sums of values; null: no sinks.
  Value addSink(Value &maximum, Value &total, const Row &row);
  /// Returns the means of columns of values, over all keys.
  Values getMeans(Value batch, Value kvHead, ArrayRef<Value> columns);
  /// Returns a 64-bit product, in elements.
  Value product(Value x, Value y) { return mul(wide(x), wide(y)); }

  const AttentionVariant &variant;
  Type element, biasType, slopesType, sinksType; // in memory; null: absent
  Value callArguments;                           // pointer to the arguments
  Values arguments;
  Value thread, lane, warp;
  Value keys, queries, kvHeads, group, rows, pairs;
  // Values of the work item.
  Value batch, kvHead, pair;
  Value before; // the sequence's length: number of keys before its first query; null: no cache

private:
  Value isVisible(const VisibleRow &row, Value key, Value safeKey);
};

/// Computes tiles of rows over all keys.
class TileEmitter : AttentionBase {
public:
  TileEmitter(ModuleOp module, const AttentionVariant &variant);
  Launch emit(StringRef name);

private:
  /// Adjacent columns of a head.
  struct Panel {
    unsigned begin = 0, width = 0;
    unsigned padded = 0;  // width with padding by zeros
    unsigned stride = 0;  // distance of rows in shared memory
    unsigned perLane = 0; // number of columns of values per lane
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
  void emitItem(Value item);
  void stageQueries();
  void stageKeys(const Panel &panel, Args::FieldIndex pointer, Args::FieldIndex stride,
                 Value offset, Value atOnce, Value firstKey);
  Values multiplyKeys(const Panel &panel, ValueRange scores);
  void finishScores(Values &scores, Value firstKey);
  /// State that is carried from tile to tile.
  struct State {
    Values maximum, total, sums;
    Values list() const;
  };
  State getState(ValueRange list) const;
  void addTile(State &state, Value firstKey);
  void addValues(const Panel &panel, unsigned first, Values &sums);
  void writeResult(const State &state);
  Value getSumOverKeys(Value value);

  unsigned sumsOfRow() const;

  unsigned rowsOfThread, warps, threads, rowsOfBlock;
  SmallVector<Panel, 4> keyPanels, valuePanels;
  unsigned queryStride = 0, panelFloats = 0;

  // Values of the launch.
  Value keysAtOnce, valuesAtOnce, queriesAtOnce; // see Stage::atOnce
  Value queryMemory, panelMemory, powerMemory;
  Value keyLane, half;
  // Values of the work item.
  Value firstRow;
  Value keyOffset, valueOffset;
  Value keysHere; // end of the keys that may be read
  SmallVector<VisibleRow> rowsHere;
};

/// Computes few rows. The keys of a KV head are split into parts, one for each block, so that every
/// multiprocessor works. All rows of the KV head share the loads of a part. Keys and values go from
/// memory into registers:
///
///   a lane has 16 bytes of a row of keys, and of values; lanes of a row add up a score.
///   16-bit elements are multiplied on tensor cores (AttentionFragments.cpp), others by fma
///   softmax in one pass, as for tiles: each group of lanes has a state for its keys
///   states are combined over the groups of a warp, the warps of a block, and the blocks
class SplitEmitter : AttentionBase {
public:
  SplitEmitter(ModuleOp module, const AttentionVariant &variant);
  Launch emit(StringRef name);

private:
  /// Softmax over a lane's keys, for each row.
  struct State {
    Values maximum, total, sums;
    Values list() const;
  };
  static State getState(ValueRange list);

  void emitItem(Value item);
  void emitRows(Value firstRow);
  /// Rows that tensor cores compute at once.
  static constexpr unsigned kFragmentRows = 8;
  /// Whether aligned rows are computed on tensor cores.
  bool usesTensorCores() const;
  unsigned getFragmentFloats() const;
  void emitFragments(Value firstRow);
  void addFragments(State &state, const VisibleRow &row, ArrayRef<Values> query,
                    ValueRange firstKeys);
  Values loadWords(Value from, Value offset, Value column, unsigned first, unsigned atOnce,
                   unsigned size);
  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> left, Value right, Value nextRight);
  Value packAndSubtract(Value &low, Value &high);
  void joinFragments(const State &state, Value firstRow);
  Values loadRow(Value from, Value offset, unsigned size);
  void addKeys(State &state, ArrayRef<VisibleRow> rowsHere, ValueRange query, Value key);
  Value getBase(Value maximum);
  void joinWarps(const State &state, Value firstRow);
  void joinParts();
  void combineParts();
  Value getPartial(Value row, Value ofPart);
  void writeResult(Value row, Value column, Value sum, Value maximum, Value total);

  unsigned width;      // elements of 16 bytes
  unsigned lanesOfKey; // lanes that share a row of keys
  unsigned chunks;     // of 16 bytes of a row, per lane
  unsigned columns;    // of all lanes of a row, with padding
  unsigned keysOfWarp, warps, threads;

  // Values of the launch.
  Value workspace, counters, parts;
  Value laneOfKey, keyOfWarp;
  Value sumMemory, stateMemory, flagMemory;
  bool isWide = false; // rows begin at multiples of 16 bytes
  unsigned unroll = 1; // keys whose loads are in flight together
  // Values of the work item: number of parts, this part, and its keys.
  Value used, part, firstKey, lastKey;
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_ATTENTIONEMITTER_H
