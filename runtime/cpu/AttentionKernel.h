//===- AttentionKernel.h - Scaled dot-product attention of a query block --===//
//
// Scores are stored transposed, [key, query], for a block of queries. No large operand then needs
// packing: keys are the broadcast operand of the first matmul, probabilities that of the second,
// and values are read in rows. Softmax runs over keys with one query per lane, without sums across
// lanes. Keys that causality or a window hides from all queries of the block are skipped.
//
// Order of operations: scale, softcap, additive bias, slopes, then invisible keys become -infinity.
// A row whose scores are all -infinity has no visible key. A sink is one more score, without a
// value. NaN affects only its own row.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_ATTENTIONKERNEL_H
#define TPC_RT_CPU_ATTENTIONKERNEL_H

#include "cpu/GemmKernel.h"

namespace tpc::rt::TPC_ISA {

constexpr int queryPanels = 2;
constexpr int queryBlock = queryPanels * panelWidth;
constexpr int queryVecs = queryBlock / lanes;
/// Keys per pass over the values, whose rows stay in the L1 cache for all query tiles.
constexpr int64_t keyBlock = 128;

TPC_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
TPC_INLINE int64_t roundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// Sizes and memory of one task.
struct AttentionTask {
  const tpc_attention_args &args;
  int64_t batch = 0, head = 0, query0 = 0;
  int64_t queries = 0;  ///< number of valid queries of the block
  int64_t firstKey = 0; ///< first key that a query of the block may see
  int64_t keys = 0;     ///< number of keys from there on
  int64_t before = 0;   ///< keys before the first query, by `lengths`
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  float *out = nullptr;
  int64_t qStride = 0, kStride = 0, vStride = 0, outStride = 0;
  float *scores = nullptr;     ///< [keys, queryBlock]
  float *packedQ = nullptr;    ///< [panels, head_size, panelWidth]
  float *sums = nullptr;       ///< [queryBlock, value_size rounded up]
  float *valuePanel = nullptr; ///< [keyBlock, panelWidth]
};

/// Number of cached keys before the sequence's first query; 0 without `lengths`.
inline int64_t keysBefore(const tpc_attention_args &a, int64_t batch) {
  return a.lengths ? a.lengths[batch] : 0;
}

/// Returns the address of a key of a KV head.
inline const float *keyAt(const tpc_attention_args &a, int64_t batch, int64_t kvHead, int64_t key) {
  int64_t head = a.lengths ? batch * a.k_batch_stride + kvHead * a.k_head_stride
                           : batch * a.seq_k * a.k_row_stride + kvHead * a.head_size;
  return a.k + head + key * a.k_row_stride;
}
inline const float *valueAt(const tpc_attention_args &a, int64_t batch, int64_t kvHead,
                            int64_t key) {
  int64_t head = a.lengths ? batch * a.v_batch_stride + kvHead * a.v_head_stride
                           : batch * a.seq_k * a.v_row_stride + kvHead * a.value_size;
  return a.v + head + key * a.v_row_stride;
}

/// Maximum number of keys that are visible to a block of queries.
inline int64_t maxKeys(const tpc_attention_args &a) {
  if (!a.causal || !a.windowed)
    return a.seq_k;
  int64_t most = a.causal_offset - a.window_offset + queryBlock - 1;
  return most < 0 ? 0 : smaller(most, a.seq_k);
}

inline int64_t attentionScratch(const tpc_attention_args &a) {
  return maxKeys(a) * queryBlock + a.head_size * queryBlock +
         roundUp(a.value_size, panelWidth) * queryBlock + keyBlock * panelWidth + 64;
}

/// Packs scaled queries into panels [head_size, panelWidth]; lanes without a query are zero.
inline void packQueries(const AttentionTask &t) {
  int64_t size = t.args.head_size;
  for (int64_t i = 0; i < roundUp(t.queries, panelWidth); ++i) {
    float *to = t.packedQ + i / panelWidth * panelWidth * size + i % panelWidth;
    for (int64_t d = 0; d < size; ++d)
      to[d * panelWidth] = i < t.queries ? t.q[i * t.qStride + d] * t.args.scale : 0.0f;
  }
}

template <int R> void scoreTile(const AttentionTask &t, int64_t key, int64_t panel) {
  Vec sums[R][vecsPerPanel] = {};
  multiply<R, 1>(sums, t.k + key * t.kStride, t.kStride, 1,
                 t.packedQ + panel * panelWidth * t.args.head_size, panelWidth, 0,
                 t.args.head_size);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecsPerPanel; ++v)
      store(t.scores + (key + r) * queryBlock + panel * panelWidth + v * lanes, sums[r][v]);
}

template <int R = maxTileRows>
TPC_INLINE void scoreTileOf(int64_t rows, const AttentionTask &t, int64_t key, int64_t panel) {
  if constexpr (R > 1) {
    if (rows < R)
      return scoreTileOf<R - 1>(rows, t, key, panel);
  }
  scoreTile<R>(t, key, panel);
}

inline void computeScores(const AttentionTask &t) {
  int64_t tiles = (t.keys + maxTileRows - 1) / maxTileRows;
  for (int64_t panel = 0; panel * panelWidth < t.queries; ++panel)
    for (int64_t i = 0; i < tiles; ++i) {
      int64_t key = t.keys * i / tiles;
      scoreTileOf<>(t.keys * (i + 1) / tiles - key, t, key, panel);
    }
}

TPC_INLINE IntVec laneNumbers() {
  IntVec lane;
  for (int i = 0; i < lanes; ++i)
    lane[i] = i;
  return lane;
}

/// Adds slope * (key - position) to each score.
inline void addSlope(const AttentionTask &t) {
  const float slope = t.args.slopes[t.head];
  const Vec lane = __builtin_convertvector(laneNumbers(), Vec);
  // Integers below 2^24: exact.
  const int64_t distance = t.firstKey - t.query0 - t.args.slopes_offset - t.before;
  for (int64_t j = 0; j < t.keys; ++j)
    for (int v = 0; v < queryVecs; ++v) {
      float *at = t.scores + j * queryBlock + v * lanes;
      Vec far = splat(static_cast<float>(distance + j - v * lanes)) - lane;
      store(at, load(at) + slope * far);
    }
}

/// Applies softcap, bias, slopes and masks to the scores.
inline void adjustScores(const AttentionTask &t) {
  const tpc_attention_args &a = t.args;
  const float none = -__builtin_inff();
  if (a.softcap != 0)
    for (int64_t i = 0; i < t.keys * queryVecs; ++i) {
      float *at = t.scores + i * lanes;
      store(at, a.softcap * tanh(load(at) / a.softcap));
    }
  if (a.bias)
    for (int64_t i = 0; i < t.queries; ++i) {
      const float *row = a.bias + t.batch * a.bias_batch_stride + t.head * a.bias_head_stride +
                         (t.query0 + i) * a.seq_k + t.firstKey;
      for (int64_t j = 0; j < t.keys; ++j)
        t.scores[j * queryBlock + i] += row[j];
    }
  if (a.slopes)
    addSlope(t);
  if (a.mask)
    for (int64_t i = 0; i < t.queries; ++i) {
      const uint8_t *row = a.mask + t.batch * a.mask_batch_stride + t.head * a.mask_head_stride +
                           (t.query0 + i) * a.seq_k + t.firstKey;
      for (int64_t j = 0; j < t.keys; ++j)
        if (!row[j])
          t.scores[j * queryBlock + i] = none;
    }
  if (a.key_mask)
    for (int64_t j = 0; j < t.keys; ++j)
      if (!a.key_mask[t.batch * a.seq_k + t.firstKey + j])
        for (int v = 0; v < queryVecs; ++v)
          store(t.scores + j * queryBlock + v * lanes, splat(none));
  const IntVec lane = laneNumbers();
  if (a.causal) {
    // Last key visible to the block's first query.
    int64_t last = t.query0 + a.causal_offset + t.before - t.firstKey;
    for (int64_t j = last + 1 > 0 ? last + 1 : 0; j < t.keys; ++j)
      for (int v = 0; v < queryVecs; ++v) {
        float *at = t.scores + j * queryBlock + v * lanes;
        store(at, select(lane + v * lanes < static_cast<int32_t>(smaller(j - last, queryBlock)),
                         splat(none), load(at)));
      }
  }
  if (a.windowed) {
    // Last key that the window hides from the block's first query; one later for each later query.
    int64_t before = t.query0 + a.window_offset + t.before - t.firstKey;
    for (int64_t j = 0; j < smaller(t.keys, before + queryBlock); ++j)
      for (int v = 0; v < queryVecs; ++v) {
        float *at = t.scores + j * queryBlock + v * lanes;
        int64_t see = j - before; // number of queries that see the key; negative: none
        store(at, select(lane + v * lanes < static_cast<int32_t>(see < 0 ? 0 : see), load(at),
                         splat(none)));
      }
  }
}

/// Turns scores into exp(score - max) and returns the sums; a sum of 0 marks a row without visible
/// keys.
TPC_INLINE void softmax(const AttentionTask &t, Vec (&total)[queryVecs]) {
  Vec most[queryVecs];
  const float sink = t.args.sinks ? t.args.sinks[t.head] : -__builtin_inff();
  for (int v = 0; v < queryVecs; ++v)
    most[v] = splat(sink);
  for (int64_t j = 0; j < t.keys; ++j)
    for (int v = 0; v < queryVecs; ++v) {
      Vec s = load(t.scores + j * queryBlock + v * lanes);
      most[v] = select(s > most[v], s, most[v]);
    }
  for (int v = 0; v < queryVecs; ++v) {
    most[v] = select(most[v] == -__builtin_inff(), Vec{}, most[v]);
    total[v] = t.args.sinks ? exp(splat(sink) - most[v]) : Vec{};
  }
  for (int64_t j = 0; j < t.keys; ++j)
    for (int v = 0; v < queryVecs; ++v) {
      float *at = t.scores + j * queryBlock + v * lanes;
      Vec e = exp(load(at) - most[v]);
      total[v] += e;
      store(at, e);
    }
}

template <int R>
void valueTile(const AttentionTask &t, int64_t query, int64_t key0, int64_t key1,
               const float *values, int64_t valueStride, float *sumsAt, int64_t sumsStride) {
  Vec sums[R][vecsPerPanel];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecsPerPanel; ++v)
      sums[r][v] = key0 ? load(sumsAt + r * sumsStride + v * lanes) : Vec{};
  multiply<R, 1>(sums, t.scores + key0 * queryBlock + query, 1, queryBlock, values, valueStride, 0,
                 key1 - key0);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecsPerPanel; ++v)
      store(sumsAt + r * sumsStride + v * lanes, sums[r][v]);
}

template <int R = maxTileRows>
TPC_INLINE void valueTileOf(int64_t rows, const AttentionTask &t, int64_t query, int64_t key0,
                            int64_t key1, const float *values, int64_t valueStride, float *sumsAt,
                            int64_t sumsStride) {
  if constexpr (R > 1) {
    if (rows < R)
      return valueTileOf<R - 1>(rows, t, query, key0, key1, values, valueStride, sumsAt,
                                sumsStride);
  }
  valueTile<R>(t, query, key0, key1, values, valueStride, sumsAt, sumsStride);
}

/// sums[query, :] = sum over keys of probability * value, not yet divided by the total.
inline void sumValues(const AttentionTask &t) {
  int64_t size = t.args.value_size, stride = roundUp(size, panelWidth);
  int64_t tiles = (t.queries + maxTileRows - 1) / maxTileRows;
  // With a sink, rows have a total even without keys.
  for (int64_t i = 0; t.keys == 0 && i < t.queries * stride; ++i)
    t.sums[i] = 0;
  for (int64_t key0 = 0; key0 < t.keys; key0 += keyBlock) {
    int64_t key1 = smaller(key0 + keyBlock, t.keys);
    for (int64_t column = 0; column < size; column += panelWidth) {
      const float *values = t.v + key0 * t.vStride + column;
      int64_t valueStride = t.vStride;
      if (size - column < panelWidth) {
        for (int64_t j = 0; j < key1 - key0; ++j)
          for (int64_t c = 0; c < panelWidth; ++c)
            t.valuePanel[j * panelWidth + c] = column + c < size ? values[j * t.vStride + c] : 0.0f;
        values = t.valuePanel;
        valueStride = panelWidth;
      }
      for (int64_t i = 0; i < tiles; ++i) {
        int64_t query = t.queries * i / tiles;
        valueTileOf<>(t.queries * (i + 1) / tiles - query, t, query, key0, key1, values,
                      valueStride, t.sums + query * stride + column, stride);
      }
    }
  }
}

/// Computes the mean of all values, including those that causality or a window hides.
inline void meanOfValues(const tpc_attention_args &a, int64_t batch, int64_t kvHead, float *out) {
  const float *v = valueAt(a, batch, kvHead, 0);
  for (int64_t d = 0; d < a.value_size; ++d) {
    float sum = 0;
    for (int64_t j = 0; j < a.seq_k; ++j)
      sum += v[j * a.v_row_stride + d];
    out[d] = sum / static_cast<float>(a.seq_k);
  }
}

/// Sets the queries of the block, the keys that they may see, and the strides of q, k and v.
inline void selectKeys(AttentionTask &t, int64_t query0) {
  const tpc_attention_args &a = t.args;
  t.query0 = query0;
  t.queries = smaller(queryBlock, a.seq_q - query0);
  t.keys = a.seq_k;
  t.before = keysBefore(a, t.batch);
  if (a.causal) {
    int64_t last = query0 + t.queries - 1 + a.causal_offset + t.before;
    t.keys = last < 0 ? 0 : smaller(a.seq_k, last + 1);
  }
  if (a.windowed) {
    int64_t first = query0 + a.window_offset + t.before + 1;
    t.firstKey = first < 0 ? 0 : smaller(first, t.keys);
    t.keys -= t.firstKey;
  }
  t.qStride = a.q_row_stride;
  t.kStride = a.k_row_stride;
  t.vStride = a.v_row_stride;
}

inline void attention(const tpc_attention_args &a, int64_t batch, int64_t head, int64_t query0,
                      float *scratch) {
  int64_t kvHead = head / (a.heads_q / a.heads_kv);
  AttentionTask t{a};
  t.batch = batch;
  t.head = head;
  selectKeys(t, query0);
  t.outStride = a.out_row_stride;
  t.q = a.q + (batch * a.seq_q + query0) * t.qStride + head * a.head_size;
  if (a.seq_k) { // otherwise both may be null
    t.k = keyAt(a, batch, kvHead, t.firstKey);
    t.v = valueAt(a, batch, kvHead, t.firstKey);
  }
  t.out = a.out + (batch * a.seq_q + query0) * t.outStride + head * a.value_size;
  t.scores = scratch;
  t.packedQ = t.scores + maxKeys(a) * queryBlock;
  t.sums = t.packedQ + a.head_size * queryBlock;
  t.valuePanel = t.sums + roundUp(a.value_size, panelWidth) * queryBlock;

  packQueries(t);
  computeScores(t);
  // Lanes of a panel without any query are not computed, but softmax passes over them.
  for (int64_t i = roundUp(t.queries, panelWidth); i < queryBlock; i += lanes)
    for (int64_t j = 0; j < t.keys; ++j)
      store(t.scores + j * queryBlock + i, Vec{});
  adjustScores(t);
  Vec total[queryVecs];
  softmax(t, total);
  sumValues(t);

  float totals[queryBlock];
  for (int v = 0; v < queryVecs; ++v)
    store(totals + v * lanes, total[v]);
  int64_t stride = roundUp(a.value_size, panelWidth);
  for (int64_t i = 0; i < t.queries; ++i) {
    float *out = t.out + i * t.outStride;
    bool visible = totals[i] != 0;
    if (!visible && a.masked_row == 1 && a.seq_k) {
      meanOfValues(a, batch, kvHead, out);
      continue;
    }
    float scale = visible ? 1.0f / totals[i] : 0.0f;
    for (int64_t d = 0; d < a.value_size; ++d)
      out[d] = visible ? t.sums[i * stride + d] * scale : 0.0f;
  }
}

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_ATTENTIONKERNEL_H
