//===- AttentionGradKernel.h - Gradient of attention of one KV head -------===//
//
// For each query head of the KV head and each block of queries, scores and probabilities are
// recomputed as in AttentionKernel.h, transposed, [key, query]. With p = softmax(s), s = c q k^T:
//
//   dv += p^T do      dp = do v^T      ds = c p (dp - rowsum(p dp))
//   dq = ds k         dk += ds^T q
//
// A block has all of its keys at once, so the row sums need neither the result nor a log-sum-exp of
// the forward pass. Memory is linear in the number of keys. Each part of the queries of a KV head
// has its own sums for dk and dv, and parts are added in order. Parts depend on sizes only, so the
// order is the same for every number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_ATTENTIONGRADKERNEL_H
#define TPC_RT_CPU_ATTENTIONGRADKERNEL_H

#include "cpu/AttentionKernel.h"

namespace tpc::rt::TPC_ISA {

/// Memory of one task, in floats.
struct GradScratch {
  int64_t scores, rows, keySums, valueSums, total;

  explicit GradScratch(const tpc_attention_args &a)
      : scores(maxKeys(a) * queryBlock),
        rows(queryBlock *
             roundUp(a.head_size > a.value_size ? a.head_size : a.value_size, panelWidth)),
        keySums(a.seq_k * roundUp(a.head_size, panelWidth)),
        valueSums(a.seq_k * roundUp(a.value_size, panelWidth)) {
    // Scores, their cotangents, slopes of the softcap; panels and rows of q and do; sums; a panel.
    total = (a.softcap != 0 ? 3 : 2) * scores + 5 * rows + keyBlock * panelWidth + 64;
  }
};

inline int64_t queryBlocks(const tpc_attention_args &a) {
  return (a.seq_q + queryBlock - 1) / queryBlock;
}

inline AttentionGradSizes attentionGradSizes(const tpc_attention_args &a) {
  const GradScratch sizes(a);
  return {sizes.total, sizes.keySums + sizes.valueSums, a.heads_q / a.heads_kv * queryBlocks(a)};
}

/// Copies rows of `width` elements to rows of whole panels, with zeros after each row.
TPC_INLINE void padRows(float *to, const float *from, int64_t fromStride, int64_t rows,
                        int64_t width) {
  int64_t stride = roundUp(width, panelWidth);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < stride; ++c)
      to[i * stride + c] = c < width ? from[i * fromStride + c] : 0.0f;
}

template <int R>
void keyTile(const float *weights, int64_t queries, const float *rows, int64_t stride, float *to) {
  Vec sums[R][vecsPerPanel];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecsPerPanel; ++v)
      sums[r][v] = load(to + r * stride + v * lanes);
  multiply<R, 1>(sums, weights, queryBlock, 1, rows, stride, 0, queries);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecsPerPanel; ++v)
      store(to + r * stride + v * lanes, sums[r][v]);
}

template <int R = maxTileRows>
TPC_INLINE void keyTileOf(int64_t keys, const float *weights, int64_t queries, const float *rows,
                          int64_t stride, float *to) {
  if constexpr (R > 1) {
    if (keys < R)
      return keyTileOf<R - 1>(keys, weights, queries, rows, stride, to);
  }
  keyTile<R>(weights, queries, rows, stride, to);
}

/// to[key, :] += sum over queries of weights[key, query] * rows[query, :].
inline void addToKeys(const AttentionTask &t, const float *weights, const float *rows,
                      int64_t width, float *to) {
  int64_t stride = roundUp(width, panelWidth), tiles = (t.keys + maxTileRows - 1) / maxTileRows;
  for (int64_t column = 0; column < stride; column += panelWidth)
    for (int64_t i = 0; i < tiles; ++i) {
      int64_t key = t.keys * i / tiles;
      keyTileOf<>(t.keys * (i + 1) / tiles - key, weights + key * queryBlock, t.queries,
                  rows + column, stride, to + (t.firstKey + key) * stride + column);
    }
}

/// Sets scores of lanes that no panel has computed to zero.
inline void clearLanes(const AttentionTask &t, float *scores) {
  for (int64_t i = roundUp(t.queries, panelWidth); i < queryBlock; i += lanes)
    for (int64_t j = 0; j < t.keys; ++j)
      store(scores + j * queryBlock + i, Vec{});
}

/// Replaces cotangents of probabilities by cotangents of the unscaled products q k^T.
/// `slopes`: derivatives of the softcap; null without one.
inline void differentiateSoftmax(const AttentionTask &t, float *cotangents, const float *slopes) {
  Vec sums[queryVecs] = {};
  for (int64_t j = 0; j < t.keys; ++j)
    for (int v = 0; v < queryVecs; ++v) {
      int64_t at = j * queryBlock + v * lanes;
      sums[v] += load(t.scores + at) * load(cotangents + at);
    }
  for (int64_t j = 0; j < t.keys; ++j)
    for (int v = 0; v < queryVecs; ++v) {
      int64_t at = j * queryBlock + v * lanes;
      Vec d = t.args.scale * load(t.scores + at) * (load(cotangents + at) - sums[v]);
      store(cotangents + at, slopes ? d * load(slopes + at) : d);
    }
}

/// See KernelTable.
inline void attentionGrad(const tpc_attention_args &a, const float *dout, float *dq, bool hasKeys,
                          bool hasValues, const AttentionGradPart &part, float *sums,
                          float *scratch) {
  const GradScratch sizes(a);
  const int64_t batch = part.batch, kvHead = part.kvHead;
  const int64_t group = a.heads_q / a.heads_kv, blocks = queryBlocks(a);
  const int64_t keyStride = roundUp(a.head_size, panelWidth);
  const int64_t valueStride = roundUp(a.value_size, panelWidth);
  float *scores = scratch, *cotangents = scores + sizes.scores;
  float *slopes = a.softcap != 0 ? cotangents + sizes.scores : nullptr;
  float *keySums = sums, *valueSums = keySums + sizes.keySums;
  float *packedQ = (slopes ? slopes : cotangents) + sizes.scores, *packedOut = packedQ + sizes.rows;
  float *queryRows = packedOut + sizes.rows, *outRows = queryRows + sizes.rows;
  float *querySums = outRows + sizes.rows, *panel = querySums + sizes.rows;
  for (int64_t i = 0; i < sizes.keySums + sizes.valueSums; ++i)
    keySums[i] = 0;
  // The same tasks with the operands of dp = do v^T and of dq = ds k.
  tpc_attention_args ofOut = a, ofKeys = a;
  ofOut.head_size = a.value_size;
  ofOut.scale = 1;
  ofKeys.value_size = a.head_size;

  for (int64_t unit = part.begin; unit < part.end; ++unit) {
    const int64_t query0 = unit % blocks * queryBlock;
    AttentionTask t{a};
    t.batch = batch;
    t.head = kvHead * group + unit / blocks;
    selectKeys(t, query0);
    t.q = a.q + (batch * a.seq_q + query0) * t.qStride + t.head * a.head_size;
    const int64_t outAt = ((batch * a.seq_q + query0) * a.heads_q + t.head) * a.value_size;
    const float *outs = dout + outAt;
    if (a.seq_k) {
      t.k = keyAt(a, batch, kvHead, t.firstKey);
      t.v = valueAt(a, batch, kvHead, t.firstKey);
    }
    t.scores = scores;
    t.packedQ = packedQ;
    packQueries(t);
    computeScores(t);
    clearLanes(t, scores);
    if (slopes)
      for (int64_t i = 0; i < t.keys * queryVecs; ++i) {
        Vec y = tanh(load(scores + i * lanes) / a.softcap);
        store(slopes + i * lanes, splat(1.0f) - y * y);
      }
    adjustScores(t);
    Vec total[queryVecs];
    softmax(t, total);
    float totals[queryBlock];
    for (int v = 0; v < queryVecs; ++v) {
      store(totals + v * lanes, total[v]);
      total[v] = select(total[v] == Vec{}, Vec{}, splat(1.0f) / total[v]);
    }
    for (int64_t j = 0; j < t.keys; ++j)
      for (int v = 0; v < queryVecs; ++v) {
        float *at = scores + j * queryBlock + v * lanes;
        store(at, load(at) * total[v]);
      }

    padRows(outRows, outs, a.heads_q * a.value_size, t.queries, a.value_size);
    if (hasValues) {
      addToKeys(t, scores, outRows, a.value_size, valueSums);
      for (int64_t i = 0; a.masked_row == 1 && i < t.queries; ++i)
        for (int64_t j = 0; totals[i] == 0 && j < a.seq_k; ++j)
          for (int64_t d = 0; d < a.value_size; ++d)
            valueSums[j * valueStride + d] +=
                outRows[i * valueStride + d] / static_cast<float>(a.seq_k);
    }
    if (!dq && !hasKeys)
      continue;

    AttentionTask out{ofOut};
    out.queries = t.queries;
    out.keys = t.keys;
    out.q = outs;
    out.qStride = a.heads_q * a.value_size;
    out.k = t.v;
    out.kStride = t.vStride;
    out.scores = cotangents;
    out.packedQ = packedOut;
    packQueries(out);
    computeScores(out);
    clearLanes(t, cotangents);
    differentiateSoftmax(t, cotangents, slopes);
    if (hasKeys) {
      padRows(queryRows, t.q, t.qStride, t.queries, a.head_size);
      addToKeys(t, cotangents, queryRows, a.head_size, keySums);
    }
    if (dq) {
      AttentionTask key{ofKeys};
      key.queries = t.queries;
      key.keys = t.keys;
      key.v = t.k;
      key.vStride = t.kStride;
      key.scores = cotangents;
      key.sums = querySums;
      key.valuePanel = panel;
      sumValues(key);
      for (int64_t i = 0; i < t.queries; ++i)
        for (int64_t d = 0; d < a.head_size; ++d)
          dq[((batch * a.seq_q + query0 + i) * a.heads_q + t.head) * a.head_size + d] =
              querySums[i * keyStride + d];
    }
  }
}

/// See KernelTable.
inline void addAttentionGrads(const tpc_attention_args &a, float *dk, float *dv, int64_t batch,
                              int64_t kvHead, const float *sums, int64_t parts, int64_t key0,
                              int64_t key1) {
  const GradScratch sizes(a);
  auto add = [&](float *to, const float *from, int64_t width) {
    const int64_t stride = roundUp(width, panelWidth);
    for (int64_t j = key0; to && j < key1; ++j) {
      float *row = to + ((batch * a.seq_k + j) * a.heads_kv + kvHead) * width;
      for (int64_t d = 0; d < width; ++d) {
        float sum = from[j * stride + d];
        for (int64_t part = 1; part < parts; ++part)
          sum += from[part * (sizes.keySums + sizes.valueSums) + j * stride + d];
        row[d] = sum;
      }
    }
  };
  add(dk, sums, a.head_size);
  add(dv, sums + sizes.keySums, a.value_size);
}

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_ATTENTIONGRADKERNEL_H
