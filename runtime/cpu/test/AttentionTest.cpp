//===- AttentionTest.cpp - Attention against a scalar reference -----------===//

#include "AttentionCase.h"

using namespace tpc::rt;

namespace {

TEST(Attention, Sizes) {
  for (int64_t sq : {0, 1, 7, 16, 33, 70})
    for (int64_t sk : {0, 1, 5, 64, 130, 300})
      for (int64_t size : {1, 8, 20, 64})
        for (bool causal : {false, true}) {
          Case c(2, sq, sk, 2, size, size);
          c.args.causal = causal;
          c.args.causal_offset = sk - sq;
          c.check("sq " + std::to_string(sq) + " sk " + std::to_string(sk) + " size " +
                  std::to_string(size) + (causal ? " causal" : ""));
        }
}

TEST(Attention, NoHeadsOrNoBatch) {
  Case(0, 3, 3, 2, 4, 4).check("no batch");
  Case none(1, 3, 3, 0, 4, 4);
  none.check("no heads");
}

TEST(Attention, ValuesOfAnotherSize) { Case(1, 9, 40, 3, 12, 37).check("value size 37"); }

TEST(Attention, GroupedHeads) {
  Case(2, 5, 9, 4, 8, 8, 2).check("groups of two");
  Case(1, 5, 9, 6, 8, 8, 6).check("one group");
}

TEST(Attention, FusedRows) {
  // q, k and v next to each other in one row of the result of merged matmuls.
  int64_t heads = 2, size = 8, tokens = 11, row = 3 * heads * size;
  Case c(1, tokens, tokens, heads, size, size);
  std::vector<float> fused = numbers(tokens * row, 8);
  c.args.q = fused.data();
  c.args.k = fused.data() + heads * size;
  c.args.v = fused.data() + 2 * heads * size;
  c.args.q_row_stride = c.args.k_row_stride = c.args.v_row_stride = row;
  c.args.causal = 1;
  c.check("fused");
}

TEST(Attention, OutputWithGaps) {
  Case c(2, 4, 6, 2, 8, 8);
  std::vector<float> expected = expectedOf(c.args), wide(2 * 4 * 20, 7.0f);
  c.args.out = wide.data();
  c.args.out_row_stride = 20;
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  tpc_attention(&world->local(0), &c.args);
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t d = 0; d < 20; ++d)
      EXPECT_NEAR(wide[row * 20 + d], d < 16 ? expected[row * 16 + d] : 7.0f, 1e-5);
}

/// Adds masks. They hide all keys from the first row.
void addMasks(Case &c, bool perHead) {
  tpc_attention_args &a = c.args;
  int64_t planes = a.batch * (perHead ? a.heads_q : 1);
  c.mask.resize(planes * a.seq_q * a.seq_k);
  for (size_t i = 0; i < c.mask.size(); ++i)
    c.mask[i] = i * 7919 % 5 < 2 ? 0 : static_cast<uint8_t>(i % 3 + 1);
  for (int64_t j = 0; j < a.seq_k; ++j)
    c.mask[j] = 0; // the first row has no visible key
  a.mask = c.mask.data();
  a.mask_head_stride = perHead ? a.seq_q * a.seq_k : 0;
  a.mask_batch_stride = (perHead ? a.heads_q : 1) * a.seq_q * a.seq_k;
}

TEST(Attention, BooleanMasks) {
  for (int32_t maskedRow : {0, 1})
    for (bool perHead : {false, true})
      for (bool causal : {false, true}) {
        Case c(2, 35, 41, 2, 8, 8);
        addMasks(c, perHead);
        c.args.causal = causal;
        c.args.masked_row = maskedRow;
        c.check("boolean mask");
      }
}

TEST(Attention, KeyMasksOfPaddedBatches) {
  for (int32_t maskedRow : {0, 1}) {
    Case c(3, 10, 10, 2, 8, 8);
    // Padded on the left, not padded, and entirely padding.
    c.keyMask.assign(30, 1);
    std::fill(c.keyMask.begin(), c.keyMask.begin() + 4, 0);
    std::fill(c.keyMask.begin() + 20, c.keyMask.end(), 0);
    c.args.key_mask = c.keyMask.data();
    c.args.causal = 1;
    c.args.masked_row = maskedRow;
    c.check("key mask");
  }
}

TEST(Attention, AdditiveBias) {
  for (float hidden : {-std::numeric_limits<float>::infinity(), -3.4028234663852886e38f, -10000.0f})
    for (int32_t maskedRow : {0, 1}) {
      Case c(2, 33, 20, 2, 8, 8);
      c.bias = numbers(2 * 33 * 20, 5);
      for (size_t i = 0; i < c.bias.size(); i += 3)
        c.bias[i] = hidden;
      std::fill(c.bias.begin(), c.bias.begin() + 20, hidden);
      c.args.bias = c.bias.data();
      c.args.bias_batch_stride = 33 * 20;
      c.args.masked_row = maskedRow;
      // Near 10000, adjacent f32 numbers differ by 0.001.
      c.check("bias " + std::to_string(hidden), hidden == -10000.0f ? 2e-3 : 5e-6);
    }
}

TEST(Attention, Softcap) {
  Case c(1, 20, 20, 2, 8, 8);
  c.args.scale = 30;
  c.args.softcap = 5;
  c.args.causal = 1;
  c.check("softcap");
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Case c(1, 20, 20, 1, 8, 8);
  c.args.scale = 1e4f;
  c.check("large", 1e-3);
}

TEST(Attention, QueriesBeforeAllKeys) {
  Case c(1, 6, 6, 1, 8, 8);
  c.args.causal = 1;
  c.args.causal_offset = -3;
  c.check("the first three see nothing");
  c.args.masked_row = 1;
  c.check("the first three see all alike");
}

TEST(Attention, Windows) {
  // Windows of one key, of some, across blocks of queries, and wider than the sequence; queries
  // before all keys and after them; with and without causality.
  for (int64_t window : {0, 1, 7, 40, 1000})
    for (int64_t offset : {-20, 0, 45})
      for (int32_t causal : {0, 1}) {
        Case c(1, 67, 80, 2, 4, 5, 2);
        c.args.causal = causal;
        c.args.causal_offset = causal ? offset : 0;
        c.args.windowed = 1;
        c.args.window_offset = offset - window;
        c.args.masked_row = static_cast<int32_t>(window % 2);
        c.check("window " + std::to_string(window) + " at " + std::to_string(offset));
      }
}

TEST(Attention, WindowsOfOneQuery) {
  for (int64_t window : {1, 5, 64, 65}) {
    Case c(3, 1, 65, 4, 8, 8);
    c.args.causal = c.args.windowed = 1;
    c.args.causal_offset = 64;
    c.args.window_offset = 64 - window;
    c.check("one query, window " + std::to_string(window));
  }
}

TEST(Attention, WindowsUnderMasks) {
  for (int32_t maskedRow : {0, 1})
    for (bool perHead : {false, true}) {
      Case c(2, 75, 81, 2, 8, 8);
      addMasks(c, perHead);
      c.keyMask.assign(2 * 81, 1);
      std::fill(c.keyMask.begin() + 81, c.keyMask.begin() + 130, 0);
      c.args.key_mask = c.keyMask.data();
      c.bias = numbers(75 * 81, 5);
      c.args.bias = c.bias.data();
      c.args.causal = c.args.windowed = 1;
      c.args.causal_offset = 6;
      c.args.window_offset = 6 - 11;
      c.args.masked_row = maskedRow;
      c.check("window under masks");
    }
}

TEST(Attention, Slopes) {
  std::vector<float> slopes = {0.5f, 0.25f, -0.1f, 3.0f};
  for (int64_t offset : {-2, 0, 9, 1000})
    for (int32_t windowed : {0, 1}) {
      Case c(1, 67, 76, 4, 4, 4, 2);
      c.args.slopes = slopes.data();
      c.args.slopes_offset = offset;
      c.args.causal = 1;
      c.args.causal_offset = 9;
      c.args.windowed = windowed;
      c.args.window_offset = 9 - 20;
      // Near 3000, adjacent f32 numbers differ by 0.00024.
      c.check("slopes at " + std::to_string(offset), offset == 1000 ? 1e-3 : 5e-6);
    }
}

TEST(Attention, Sinks) {
  // The first sink has no effect; the last one is larger than all scores.
  std::vector<float> sinks = {-INFINITY, 0.5f, -3.0f, 90.0f};
  // The first queries see no key; with -64, neither does a whole block of queries.
  for (int64_t offset : {-3, -64})
    for (int32_t windowed : {0, 1}) {
      Case c(2, 67, 76, 4, 4, 4, 2);
      c.args.sinks = sinks.data();
      c.args.causal = 1;
      c.args.causal_offset = offset;
      c.args.windowed = windowed;
      c.args.window_offset = offset - 20;
      c.check("sinks at " + std::to_string(offset));
    }
}

TEST(Attention, SlopesAddLikeABias) {
  Case c(1, 20, 33, 2, 8, 8);
  std::vector<float> slopes = {0.5f, 0.125f};
  c.args.slopes = slopes.data();
  c.args.slopes_offset = 13;
  std::vector<float> first = expectedOf(c.args);
  c.args.slopes = nullptr;
  // Slopes times key indices instead of distances: scores of a row change by a constant.
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 20; ++i)
      for (int64_t j = 0; j < 33; ++j)
        c.bias.push_back(slopes[h] * static_cast<float>(j));
  c.args.bias = c.bias.data();
  c.args.bias_head_stride = 20 * 33;
  c.check("bias");
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(c.out[i], first[i], 5e-6);
}

TEST(Attention, NaNStaysInItsRow) {
  Case c(1, 40, 40, 1, 8, 8);
  c.q[5 * 8 + 2] = std::numeric_limits<float>::quiet_NaN();
  c.args.causal = 1;
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  tpc_attention(&world->local(0), &c.args);
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(std::isnan(c.out[i * 8]), i == 5) << i;
}

TEST(Attention, SameBitsForEveryNumberOfThreads) {
  std::vector<float> first;
  for (int threads : {1, 2, 5}) {
    Case c(2, 100, 100, 3, 16, 16);
    c.args.causal = 1;
    auto world = World::threads(Grid({{"tp", 1}}), threads);
    tpc_attention(&world->local(0), &c.args);
    if (first.empty())
      first = c.out;
    EXPECT_EQ(c.out, first);
  }
}

TEST(Attention, KvHeadsThatDoNotDivideQueryHeadsAreAnError) {
  for (int64_t heads : {0, 3}) {
    Case c(1, 2, 2, 4, 8, 8, 2);
    c.args.heads_kv = heads;
    auto world = World::threads(Grid({{"tp", 1}}), 1);
    auto error = world->run([&](tpc_context &ctx) { tpc_attention(&ctx, &c.args); });
    EXPECT_NE(error.value_or("").find(std::to_string(heads) + " kv heads cannot serve 4"),
              std::string::npos);
  }
}

} // namespace
