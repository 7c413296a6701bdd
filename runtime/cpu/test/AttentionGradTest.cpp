//===- AttentionGradTest.cpp - Gradient of attention ----------------------===//

#include "AttentionCase.h"
#include "tpc/attention_grad.h"

namespace tpc::rt {
namespace {

/// Gradients with respect to q, k and v.
struct Gradients {
  std::vector<float> q, k, v;
};

/// Computes the gradients row by row, in double.
Gradients expectedOf(const tpc_attention_args &a, const std::vector<float> &dout) {
  std::vector<double> dq(a.batch * a.seq_q * a.heads_q * a.head_size),
      dk(a.batch * a.seq_k * a.heads_kv * a.head_size),
      dv(a.batch * a.seq_k * a.heads_kv * a.value_size), p(a.seq_k), slope(a.seq_k), dp(a.seq_k);
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads_q; ++h)
      for (int64_t i = 0; i < a.seq_q; ++i) {
        int64_t kv = h / (a.heads_q / a.heads_kv), query = (b * a.seq_q + i) * a.heads_q + h;
        auto keyRow = [&](int64_t j) { return (b * a.seq_k + j) * a.heads_kv + kv; };
        double most = -INFINITY, total = 0, mean = 0;
        for (int64_t j = 0; j < a.seq_k; ++j) {
          double s = 0;
          for (int64_t d = 0; d < a.head_size; ++d)
            s += double(a.q[query * a.head_size + d]) * a.k[keyRow(j) * a.head_size + d];
          s *= a.scale;
          slope[j] = 1;
          if (a.softcap != 0) {
            double y = std::tanh(s / a.softcap);
            s = a.softcap * y;
            slope[j] = 1 - y * y;
          }
          int64_t element = i * a.seq_k + j;
          if (a.bias)
            s += a.bias[b * a.bias_batch_stride + h * a.bias_head_stride + element];
          if (a.slopes)
            s += double(a.slopes[h]) * double(j - i - a.slopes_offset);
          bool sees =
              (!a.causal || j <= i + a.causal_offset) && (!a.windowed || j > i + a.window_offset) &&
              (!a.key_mask || a.key_mask[b * a.seq_k + j]) &&
              (!a.mask || a.mask[b * a.mask_batch_stride + h * a.mask_head_stride + element]);
          p[j] = sees ? s : -INFINITY;
          most = std::max(most, p[j]);
        }
        bool any = most != -INFINITY;
        for (double &x : p)
          total += x = any ? std::exp(x - most) : a.masked_row;
        for (int64_t j = 0; j < a.seq_k; ++j) {
          p[j] = total != 0 ? p[j] / total : 0;
          dp[j] = 0;
          for (int64_t d = 0; d < a.value_size; ++d) {
            double out = dout[query * a.value_size + d];
            dp[j] += out * a.v[keyRow(j) * a.value_size + d];
            dv[keyRow(j) * a.value_size + d] += p[j] * out;
          }
          mean += p[j] * dp[j];
        }
        for (int64_t j = 0; any && j < a.seq_k; ++j)
          for (int64_t d = 0; d < a.head_size; ++d) {
            double ds = a.scale * slope[j] * p[j] * (dp[j] - mean);
            dq[query * a.head_size + d] += ds * a.k[keyRow(j) * a.head_size + d];
            dk[keyRow(j) * a.head_size + d] += ds * a.q[query * a.head_size + d];
          }
      }
  return {{dq.begin(), dq.end()}, {dk.begin(), dk.end()}, {dv.begin(), dv.end()}};
}

struct GradientCase : Case {
  std::vector<float> dout;
  Gradients found;

  GradientCase(int64_t batch, int64_t sq, int64_t sk, int64_t heads, int64_t headSize,
               int64_t valueSize, int64_t group = 1)
      : Case(batch, sq, sk, heads, headSize, valueSize, group),
        dout(numbers(batch * sq * heads * valueSize, 5)) {
    args.out = nullptr;
    args.scale = 0.4f;
  }

  void clear() {
    found = {std::vector(q.size(), 9.0f), std::vector(k.size(), 9.0f), std::vector(v.size(), 9.0f)};
  }

  /// Compares with a tolerance relative to the largest element.
  static void compare(const std::vector<float> &have, const std::vector<float> &want,
                      const std::string &what) {
    ASSERT_EQ(have.size(), want.size());
    float largest = 1e-3f;
    for (float x : want)
      largest = std::max(largest, std::fabs(x));
    for (size_t i = 0; i < have.size(); ++i)
      ASSERT_NEAR(have[i], want[i], 1e-5f * largest) << what << ", element " << i;
  }

  void check(const std::string &what) {
    Gradients expected = expectedOf(args, dout);
    for (const KernelTable *table : allTables()) {
      // Guard elements after the scratch memory.
      AttentionGradSizes sizes = table->attentionGradSizes(args);
      std::vector<float> scratch(sizes.scratch + 16, 7.0f), sums(2 * sizes.sums + 16, 7.0f);
      clear();
      for (int64_t b = 0; b < args.batch; ++b)
        for (int64_t h = 0; h < args.heads_kv; ++h) {
          for (int64_t part : {0, 1})
            table->attentionGrad(args, dout.data(), found.q.data(), true, true,
                                 {b, h, part * sizes.units / 2, (part + 1) * sizes.units / 2},
                                 sums.data() + part * sizes.sums, scratch.data());
          table->addAttentionGrads(args, found.k.data(), found.v.data(), b, h, sums.data(), 2, 0,
                                   args.seq_k);
        }
      for (int64_t i = 0; i < 16; ++i)
        ASSERT_TRUE(scratch[sizes.scratch + i] == 7.0f && sums[2 * sizes.sums + i] == 7.0f) << what;
      compare(found.q, expected.q, what + ", dq, " + table->name);
      compare(found.k, expected.k, what + ", dk, " + table->name);
      compare(found.v, expected.v, what + ", dv, " + table->name);
    }
    auto world = World::threads(Grid({{"tp", 1}}), 2);
    clear();
    tpc_attention_grad(&world->local(0), &args, dout.data(), found.q.data(), nullptr, nullptr);
    tpc_attention_grad(&world->local(0), &args, dout.data(), nullptr, nullptr, found.v.data());
    compare(found.q, expected.q, what + ", dq alone");
    compare(found.v, expected.v, what + ", dv alone");
    for (float x : found.k)
      ASSERT_EQ(x, 9.0f);
  }
};

TEST(AttentionGrad, Sizes) {
  for (int64_t size : {1, 7, 16, 40, 64})
    GradientCase(1, 5, 9, 2, size, size).check("size " + std::to_string(size));
  for (int64_t queries : {1, 31, 33, 64, 70})
    GradientCase(2, queries, 67, 2, 16, 16).check(std::to_string(queries) + " queries");
  GradientCase(1, 9, 40, 3, 12, 37).check("value size 37");
  GradientCase(1, 9, 40, 3, 37, 12).check("head size 37");
  GradientCase(1, 3, 0, 2, 8, 8).check("no keys");
}

TEST(AttentionGrad, GroupedHeads) {
  GradientCase(2, 37, 41, 6, 16, 16, 3).check("groups of 3");
  GradientCase(1, 37, 41, 4, 16, 16, 4).check("one kv head");
}

TEST(AttentionGrad, Visibility) {
  GradientCase c(2, 70, 70, 4, 16, 16, 2);
  c.args.causal = 1;
  c.check("causal");
  c.args.causal_offset = -3;
  c.check("rows without keys");
  c.args.masked_row = 1;
  c.check("uniform rows");
  c.args.masked_row = 0;
  c.args.causal_offset = 0;
  c.args.windowed = 1;
  c.args.window_offset = -20;
  c.check("window");
  c.args.causal = 0;
  c.check("window that is not causal");
  GradientCase m(2, 35, 40, 2, 16, 16);
  m.mask.resize(2 * 35 * 40);
  for (size_t i = 0; i < m.mask.size(); ++i)
    m.mask[i] = i % 3 != 0;
  m.args.mask = m.mask.data();
  m.args.mask_batch_stride = 35 * 40;
  m.keyMask.assign(2 * 40, 1);
  m.keyMask[3] = m.keyMask[79] = 0;
  m.args.key_mask = m.keyMask.data();
  m.check("masks");
}

TEST(AttentionGrad, ChangedScores) {
  GradientCase c(1, 35, 40, 4, 16, 16, 2);
  c.args.softcap = 1.5f;
  c.check("softcap");
  std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
  c.args.slopes = slopes.data();
  c.args.slopes_offset = 5;
  c.check("slopes");
  c.bias = numbers(4 * 35 * 40, 8);
  c.args.bias = c.bias.data();
  c.args.bias_head_stride = 35 * 40;
  c.check("bias");
}

void expectSameBits(GradientCase c) {
  c.args.causal = 1;
  Gradients first;
  for (int threads : {1, 2, 3}) {
    auto world = World::threads(Grid({{"tp", 1}}), threads);
    c.clear();
    tpc_attention_grad(&world->local(0), &c.args, c.dout.data(), c.found.q.data(), c.found.k.data(),
                       c.found.v.data());
    if (threads == 1)
      first = c.found;
    EXPECT_EQ(first.q, c.found.q);
    EXPECT_EQ(first.k, c.found.k);
    EXPECT_EQ(first.v, c.found.v);
  }
}

TEST(AttentionGrad, SameBitsForEveryNumberOfThreads) {
  expectSameBits(GradientCase(2, 130, 130, 4, 32, 32, 2));
  expectSameBits(GradientCase(1, 130, 130, 8, 32, 32, 8)); // parts of one KV head
  expectSameBits(GradientCase(1, 40, 40, 32, 16, 16, 1));  // one part for each
}

} // namespace
} // namespace tpc::rt
