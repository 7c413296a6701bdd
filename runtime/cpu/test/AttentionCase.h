//===- AttentionCase.h - Test case of attention with a scalar reference ---===//

#ifndef TPC_RT_CPU_TEST_ATTENTIONCASE_H
#define TPC_RT_CPU_TEST_ATTENTIONCASE_H

#include "Tables.h"
#include "core/World.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <string>

namespace tpc::rt {

/// Computes attention row by row, in double, as the ABI's comments define it.
inline std::vector<float> expectedOf(const tpc_attention_args &a) {
  if (a.seq_k == 0)
    return std::vector<float>(a.batch * a.seq_q * a.heads_q * a.value_size); // no keys: zeros
  int64_t qs = a.q_row_stride, ks = a.k_row_stride, vs = a.v_row_stride;
  std::vector<float> out(a.batch * a.seq_q * a.heads_q * a.value_size);
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t i = 0; i < a.seq_q; ++i)
      for (int64_t h = 0; h < a.heads_q; ++h) {
        int64_t kv = h / (a.heads_q / a.heads_kv), before = a.lengths ? a.lengths[b] : 0;
        const float *k = a.k + (a.lengths ? b * a.k_batch_stride + kv * a.k_head_stride
                                          : b * a.seq_k * ks + kv * a.head_size);
        const float *v = a.v + (a.lengths ? b * a.v_batch_stride + kv * a.v_head_stride
                                          : b * a.seq_k * vs + kv * a.value_size);
        std::vector<double> score(a.seq_k);
        double maximum = -INFINITY, total = 0;
        for (int64_t j = 0; j < a.seq_k; ++j) {
          double s = 0;
          for (int64_t d = 0; d < a.head_size; ++d)
            s += static_cast<double>(a.q[(b * a.seq_q + i) * qs + h * a.head_size + d]) *
                 k[j * ks + d];
          s *= a.scale;
          if (a.softcap != 0)
            s = a.softcap * std::tanh(s / a.softcap);
          if (a.bias)
            s = static_cast<float>(s) +
                a.bias[b * a.bias_batch_stride + h * a.bias_head_stride + i * a.seq_k + j];
          if (a.slopes)
            s += static_cast<double>(a.slopes[h]) *
                 static_cast<double>(j - i - before - a.slopes_offset);
          bool visible = !(a.causal && j > i + before + a.causal_offset);
          visible &= !(a.windowed && j <= i + before + a.window_offset);
          visible &= !a.key_mask || a.key_mask[b * a.seq_k + j];
          visible &=
              !a.mask || a.mask[b * a.mask_batch_stride + h * a.mask_head_stride + i * a.seq_k + j];
          score[j] = visible ? s : -INFINITY;
          maximum = std::fmax(maximum, score[j]);
        }
        if (a.sinks && a.sinks[h] != -INFINITY) {
          maximum = std::fmax(maximum, a.sinks[h]);
          total = std::exp(a.sinks[h] - maximum);
        }
        bool any = maximum != -INFINITY;
        for (double &s : score) {
          s = any ? std::exp(s - maximum) : a.masked_row;
          total += s;
        }
        for (int64_t d = 0; d < a.value_size; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < a.seq_k; ++j)
            sum += score[j] != 0 ? score[j] * v[j * vs + d] : 0;
          out[((b * a.seq_q + i) * a.heads_q + h) * a.value_size + d] =
              total != 0 ? static_cast<float>(sum / total) : 0.0f;
        }
      }
  return out;
}

/// Data for a case; `args` points into it.
struct Case {
  std::vector<float> q, k, v, out, bias;
  std::vector<uint8_t> mask, keyMask;
  tpc_attention_args args = {};

  Case(int64_t batch, int64_t sq, int64_t sk, int64_t heads, int64_t headSize, int64_t valueSize,
       int64_t group = 1) {
    int64_t kvHeads = heads / group;
    q = numbers(batch * sq * heads * headSize, 1);
    k = numbers(batch * sk * kvHeads * headSize, 2);
    v = numbers(batch * sk * kvHeads * valueSize, 3);
    out.assign(batch * sq * heads * valueSize, 9.0f);
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.out = out.data();
    args.batch = batch;
    args.seq_q = sq;
    args.seq_k = sk;
    args.heads_q = heads;
    args.heads_kv = kvHeads;
    args.head_size = headSize;
    args.value_size = valueSize;
    args.q_row_stride = heads * headSize;
    args.k_row_stride = kvHeads * headSize;
    args.v_row_stride = kvHeads * valueSize;
    args.out_row_stride = heads * valueSize;
    args.scale = 1.7f;
  }

  void check(const std::string &what, double tolerance = 5e-6) {
    std::vector<float> expected = expectedOf(args);
    for (const KernelTable *table : allTables()) {
      std::vector<float> scratch(table->attentionScratch(args));
      std::fill(out.begin(), out.end(), 9.0f);
      for (int64_t b = 0; b < args.batch; ++b)
        for (int64_t h = 0; h < args.heads_q; ++h)
          for (int64_t i = 0; i < args.seq_q; i += table->queryBlock)
            table->attention(args, b, h, i, scratch.data());
      compare(expected, tolerance, what + ", " + table->name);
      std::fill(out.begin(), out.end(), 9.0f);
      decode(*table);
      compare(expected, tolerance, what + ", by keys, " + table->name);
    }
    std::fill(out.begin(), out.end(), 9.0f);
    auto world = World::threads(Grid({{"tp", 1}}), 2);
    tpc_attention(&world->local(0), &args);
    compare(expected, tolerance, what + ", by the ABI");
  }

  /// Runs the decode kernels, one range of keys at a time.
  void decode(const KernelTable &table) {
    if (args.heads_q == 0)
      return;
    std::vector<float> scratch(table.decodeScratch(args));
    int64_t each = table.decodedFloats(args), parts = (args.seq_k + decodeKeys - 1) / decodeKeys;
    std::vector<float> decoded(parts * each);
    for (int64_t b = 0; b < args.batch; ++b)
      for (int64_t h = 0; h < args.heads_kv; ++h) {
        for (int64_t i = 0; i < parts; ++i)
          table.decode(args, b, h, i * decodeKeys, std::min(args.seq_k, (i + 1) * decodeKeys),
                       scratch.data(), decoded.data() + i * each);
        table.mergeDecoded(args, b, h, decoded.data(), parts);
      }
  }

  void compare(const std::vector<float> &expected, double tolerance, const std::string &what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(out[i])) << what << " at " << i;
        continue;
      }
      ASSERT_NEAR(out[i], expected[i], tolerance) << what << " at " << i;
    }
  }
};

} // namespace tpc::rt

#endif // TPC_RT_CPU_TEST_ATTENTIONCASE_H
