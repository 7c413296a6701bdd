//===- DecodeAttention.h - Attention of few queries, split along keys -----===//
//
// With few queries, as in token-by-token generation, AttentionKernel.h would leave most lanes of
// its transposed scores empty, and tasks of one head each would read grouped keys once per query
// head. Here a task has a range of keys of one KV head, for all query heads that share it. Each
// query and head has a row of scores, [row, key], so that masks and softmax run along keys. Keys
// and values are read once.
//
// The softmax of a range is relative to the range's own maximum score. `mergeDecoded` combines the
// ranges of a row in ascending order. Ranges depend only on key indices, so bits do not depend on
// threads or other rows.
//
// Order of operations and NaN semantics are the same as in AttentionKernel.h.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_DECODEATTENTION_H
#define TPC_RT_CPU_DECODEATTENTION_H

#include "cpu/AttentionKernel.h"

namespace tpc::rt::TPC_ISA {

/// Sizes and memory of one task.
struct DecodeTask {
  const tpc_attention_args &args;
  int64_t batch, group, head0; ///< `group` query heads from `head0` on
  int64_t key0, keys;
  int64_t before;                         ///< keys before the first query, by `lengths`
  const float *k = nullptr, *v = nullptr; ///< addresses of the first key and value
  float *q = nullptr;                     ///< [rows, head_size rounded up], scaled
  float *scores = nullptr;                ///< [rows, decodeKeys]
  float *keyBlock = nullptr;              ///< [lanes, head_size rounded up]
  float *valuePanel = nullptr;            ///< [decodeKeys, panelWidth]

  int64_t rows() const { return args.seq_q * group; }
  int64_t query(int64_t row) const { return row / group; }
  int64_t head(int64_t row) const { return head0 + row % group; }
};

/// Floats per row of a range's result: sums of values, maximum score, sum of exp(score - maximum).
inline int64_t decodedRow(const tpc_attention_args &a) {
  return roundUp(a.value_size, panelWidth) + lanes;
}

inline int64_t decodedFloats(const tpc_attention_args &a) {
  return a.seq_q * (a.heads_q / a.heads_kv) * decodedRow(a);
}

inline int64_t decodeScratch(const tpc_attention_args &a) {
  const int64_t rows = a.seq_q * (a.heads_q / a.heads_kv), width = roundUp(a.head_size, lanes);
  return rows * (width + decodeKeys) + lanes * width + decodeKeys * panelWidth;
}

inline void scaleQueries(const DecodeTask &t) {
  int64_t size = t.args.head_size, width = roundUp(size, lanes);
  for (int64_t row = 0; row < t.rows(); ++row) {
    const float *q = t.args.q + (t.batch * t.args.seq_q + t.query(row)) * t.args.q_row_stride +
                     t.head(row) * size;
    float *to = t.q + row * width;
    for (int64_t d = 0; d < width; ++d)
      to[d] = d < size ? q[d] * t.args.scale : 0.0f;
  }
}

TPC_INLINE Vec loadFew(const float *p, int64_t count) {
  float buffer[lanes] = {};
  for (int64_t i = 0; i < count; ++i)
    buffer[i] = p[i];
  return load(buffer);
}

/// Returns a vector whose lane i is the sum of the lanes of x[i]. Each step adds the halves of two
/// vectors.
TPC_INLINE Vec sumsOfLanes(Vec (&x)[lanes]) {
  for (int n = lanes / 2; n; n /= 2)
    for (int i = 0; i < n; ++i)
      x[i] = interleaveLow(x[i], x[i + n]) + interleaveHigh(x[i], x[i + n]);
  return x[0];
}

/// Computes the scores of all rows, one vector of keys at a time. Lanes beyond the last key repeat
/// that key; they are masked later.
inline void scoreRows(const DecodeTask &t) {
  const int64_t size = t.args.head_size, width = roundUp(size, lanes),
                roundedDown = size / lanes * lanes;
  // Rows of a head are far apart: the hardware prefetcher does not predict them.
  constexpr int64_t ahead = 16;
  for (int64_t key = 0; key < t.keys; key += lanes) {
    const float *keys[lanes];
    for (int i = 0; i < lanes; ++i)
      keys[i] = t.k + smaller(key + i, t.keys - 1) * t.args.k_row_stride;
    for (int64_t i = key + ahead; i < smaller(key + ahead + lanes, t.keys); ++i)
      for (int64_t d = 0; d < size; d += 16)
        __builtin_prefetch(t.k + i * t.args.k_row_stride + d);
    int64_t readable = roundedDown;
    // For several rows, keys are copied to contiguous memory, because rows a power of two apart
    // would evict each other from the cache.
    if (t.rows() > 1 || roundedDown < size) {
      for (int i = 0; i < lanes; ++i) {
        float *to = t.keyBlock + i * width;
        for (int64_t d = 0; d < roundedDown; d += lanes)
          store(to + d, load(keys[i] + d));
        if (roundedDown < size)
          store(to + roundedDown, loadFew(keys[i] + roundedDown, size - roundedDown));
        keys[i] = to;
      }
      readable = width;
    }
    for (int64_t row = 0; row < t.rows(); ++row) {
      const float *q = t.q + row * width;
      Vec sums[lanes] = {};
      for (int64_t d = 0; d < readable; d += lanes) {
        Vec left = load(q + d);
        for (int i = 0; i < lanes; ++i)
          sums[i] += left * load(keys[i] + d);
      }
      store(t.scores + row * decodeKeys + key, sumsOfLanes(sums));
    }
  }
}

/// Applies bias and masks to a row of scores before softmax. Scores beyond the last key are
/// -infinity.
inline void adjustRow(const DecodeTask &t, int64_t row) {
  const tpc_attention_args &a = t.args;
  const float none = -__builtin_inff();
  const int64_t query = t.query(row), head = t.head(row);
  float *scores = t.scores + row * decodeKeys;
  if (a.softcap != 0)
    for (int64_t j = 0; j < t.keys; j += lanes)
      store(scores + j, a.softcap * tanh(load(scores + j) / a.softcap));
  if (a.bias) {
    const float *bias = a.bias + t.batch * a.bias_batch_stride + head * a.bias_head_stride +
                        query * a.seq_k + t.key0;
    for (int64_t j = 0; j < t.keys; ++j)
      scores[j] += bias[j];
  }
  if (a.slopes) {
    // Integers below 2^24: exact.
    const Vec lane = __builtin_convertvector(laneNumbers(), Vec);
    const int64_t distance = t.key0 - query - a.slopes_offset - t.before;
    for (int64_t j = 0; j < t.keys; j += lanes) {
      Vec far = splat(static_cast<float>(distance + j)) + lane;
      store(scores + j, load(scores + j) + a.slopes[head] * far);
    }
  }
  if (a.mask) {
    const uint8_t *mask = a.mask + t.batch * a.mask_batch_stride + head * a.mask_head_stride +
                          query * a.seq_k + t.key0;
    for (int64_t j = 0; j < t.keys; ++j)
      scores[j] = mask[j] ? scores[j] : none;
  }
  if (a.key_mask) {
    const uint8_t *mask = a.key_mask + t.batch * a.seq_k + t.key0;
    for (int64_t j = 0; j < t.keys; ++j)
      scores[j] = mask[j] ? scores[j] : none;
  }
  int64_t end = t.keys, begin = 0;
  if (a.causal)
    end = smaller(end, query + a.causal_offset + t.before + 1 - t.key0);
  if (a.windowed)
    begin = smaller(t.keys, query + a.window_offset + t.before + 1 - t.key0);
  for (int64_t j = 0; j < begin; ++j)
    scores[j] = none;
  for (int64_t j = end > 0 ? end : 0; j < roundUp(t.keys, lanes); ++j)
    scores[j] = none;
}

/// Turns a row of scores into exp(score - maximum), and returns the maximum and the sum.
inline void softmaxRow(const DecodeTask &t, int64_t row, float &rowMax, float &rowTotal) {
  float *scores = t.scores + row * decodeKeys, laneValues[lanes];
  Vec maximum = splat(-__builtin_inff());
  for (int64_t j = 0; j < t.keys; j += lanes) {
    Vec s = load(scores + j);
    maximum = select(s > maximum, s, maximum);
  }
  store(laneValues, maximum);
  rowMax = laneValues[0];
  for (int i = 1; i < lanes; ++i)
    rowMax = laneValues[i] > rowMax ? laneValues[i] : rowMax;
  // If the row sees no key of the range, all results are 0.
  maximum = splat(rowMax == -__builtin_inff() ? 0 : rowMax);
  Vec total = {};
  for (int64_t j = 0; j < t.keys; j += lanes) {
    Vec e = exp(load(scores + j) - maximum);
    total += e;
    store(scores + j, e);
  }
  store(laneValues, total);
  rowTotal = 0;
  for (int i = 0; i < lanes; ++i)
    rowTotal += laneValues[i];
}

template <int R, int P>
void decodeTile(const DecodeTask &t, const float *scores, const float *values, int64_t valueStride,
                float *out, int64_t outStride) {
  Vec sums[R][P * vecsPerPanel] = {};
  multiply<R, P>(sums, scores, decodeKeys, 1, values, valueStride, panelWidth, t.keys);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < P * vecsPerPanel; ++v)
      store(out + r * outStride + v * lanes, sums[r][v]);
}

template <int P, int R = maxTileRows>
TPC_INLINE void decodeTileOf(int64_t rows, const DecodeTask &t, const float *scores,
                             const float *values, int64_t valueStride, float *out,
                             int64_t outStride) {
  if constexpr (R > 1) {
    if (rows < R)
      return decodeTileOf<P, R - 1>(rows, t, scores, values, valueStride, out, outStride);
  }
  decodeTile<R, P>(t, scores, values, valueStride, out, outStride);
}

/// out[row, :] = sum over the range's keys of exp(score - maximum) * value.
inline void sumDecodedValues(const DecodeTask &t, float *out, int64_t outStride) {
  int64_t size = t.args.value_size, rows = t.rows();
  int64_t tiles = (rows + maxTileRows - 1) / maxTileRows;
  for (int64_t column = 0; column < size;) {
    // Few rows do not fill the pipeline, so more columns are computed at a time.
    int64_t panels = rows == 1 && size - column >= 4 * panelWidth                 ? 4
                     : rows <= maxTileRows / 2 && size - column >= 2 * panelWidth ? 2
                                                                                  : 1;
    const float *values = t.v + column;
    int64_t stride = t.args.v_row_stride;
    if (size - column >= panelWidth && tiles > 1) { // copied, as keys are
      for (int64_t j = 0; j < t.keys; ++j)
        for (int64_t v = 0; v < panelWidth; v += lanes)
          store(t.valuePanel + j * panelWidth + v, load(values + j * stride + v));
      values = t.valuePanel;
      stride = panelWidth;
    } else if (size - column < panelWidth) {
      for (int64_t j = 0; j < t.keys; ++j)
        for (int64_t c = 0; c < panelWidth; ++c)
          t.valuePanel[j * panelWidth + c] = column + c < size ? values[j * stride + c] : 0.0f;
      values = t.valuePanel;
      stride = panelWidth;
    }
    for (int64_t i = 0; i < tiles; ++i) {
      int64_t row = rows * i / tiles, count = rows * (i + 1) / tiles - row;
      const float *scores = t.scores + row * decodeKeys;
      float *to = out + row * outStride + column;
      if (panels == 4)
        decodeTile<1, 4>(t, scores, values, stride, to, outStride);
      else if (panels == 2)
        decodeTileOf<2, maxTileRows / 2>(count, t, scores, values, stride, to, outStride);
      else
        decodeTileOf<1>(count, t, scores, values, stride, to, outStride);
    }
    column += panels * panelWidth;
  }
}

inline void decode(const tpc_attention_args &a, int64_t batch, int64_t kvHead, int64_t key0,
                   int64_t key1, float *scratch, float *decoded) {
  int64_t group = a.heads_q / a.heads_kv, rows = a.seq_q * group;
  DecodeTask t{a, batch, group, kvHead * group, key0, key1 - key0, keysBefore(a, batch)};
  t.k = keyAt(a, batch, kvHead, key0);
  t.v = valueAt(a, batch, kvHead, key0);
  t.scores = scratch;
  t.q = t.scores + rows * decodeKeys;
  t.keyBlock = t.q + rows * roundUp(a.head_size, lanes);
  t.valuePanel = t.keyBlock + lanes * roundUp(a.head_size, lanes);
  const int64_t stride = decodedRow(a);
  scaleQueries(t);
  scoreRows(t);
  for (int64_t row = 0; row < rows; ++row) {
    adjustRow(t, row);
    float *numbers = decoded + row * stride + stride - lanes;
    softmaxRow(t, row, numbers[0], numbers[1]);
  }
  sumDecodedValues(t, decoded, stride);
}

TPC_INLINE float expOfOne(float x) {
  Vec e = exp(splat(x));
  return e[0];
}

inline void mergeDecoded(const tpc_attention_args &a, int64_t batch, int64_t kvHead,
                         const float *decoded, int64_t parts) {
  const int64_t group = a.heads_q / a.heads_kv, stride = decodedRow(a), part = decodedFloats(a);
  for (int64_t row = 0; row < a.seq_q * group; ++row) {
    float *out = a.out + (batch * a.seq_q + row / group) * a.out_row_stride +
                 (kvHead * group + row % group) * a.value_size;
    const float *sums = decoded + row * stride, *numbers = sums + stride - lanes;
    const float sink = a.sinks ? a.sinks[kvHead * group + row % group] : -__builtin_inff();
    float maximum = sink;
    for (int64_t p = 0; p < parts; ++p)
      maximum = numbers[p * part] > maximum ? numbers[p * part] : maximum;
    maximum = maximum == -__builtin_inff() ? 0 : maximum;
    float total = a.sinks ? expOfOne(sink - maximum) : 0;
    for (int64_t d = 0; d < a.value_size; ++d)
      out[d] = 0;
    for (int64_t p = 0; p < parts; ++p) {
      float weight = expOfOne(numbers[p * part] - maximum);
      total += weight * numbers[p * part + 1];
      for (int64_t d = 0; d < a.value_size; ++d)
        out[d] += weight * sums[p * part + d];
    }
    if (total != 0) {
      float scale = 1.0f / total;
      for (int64_t d = 0; d < a.value_size; ++d)
        out[d] *= scale;
    } else if (a.masked_row == 1 && a.seq_k) {
      meanOfValues(a, batch, kvHead, out);
    } else {
      for (int64_t d = 0; d < a.value_size; ++d)
        out[d] = 0;
    }
  }
}

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_DECODEATTENTION_H
