//===- DecodeAttentionTest.cpp - Attention of few queries -----------------===//
//
// Covers several ranges of keys. AttentionTest.cpp also runs its cases split along keys, but within
// one range.
//
//===----------------------------------------------------------------------===//

#include "AttentionCase.h"
#include "cpu/Attention.h"
#include "cpu/CpuDevice.h"

using namespace tpc::rt;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Runs the case through the ABI on `threads` threads.
std::vector<float> run(Case &c, int threads = 1) {
  std::fill(c.out.begin(), c.out.end(), 9.0f);
  auto world = World::threads(Grid({{"tp", 1}}), threads);
  tpc_attention(&world->local(0), &c.args);
  return c.out;
}

/// Makes the attention of a step after sk - sq tokens.
Case step(int64_t batch, int64_t sq, int64_t sk, int64_t heads, int64_t group, int64_t size = 16) {
  Case c(batch, sq, sk, heads, size, size, group);
  c.args.causal = 1;
  c.args.causal_offset = sk - sq;
  return c;
}

TEST(DecodeAttention, SizesAroundParts) {
  for (int64_t sq : {1, 2, 8})
    for (int64_t sk : {255, 256, 257, 511, 512, 513, 1100})
      for (int64_t group : {1, 3})
        step(2, sq, sk, 3, group)
            .check("sq " + std::to_string(sq) + " sk " + std::to_string(sk) + " group " +
                   std::to_string(group));
}

TEST(DecodeAttention, ManyRows) {
  // Sizes above a tile, and remainders of heads, values and panels.
  Case c(1, 4, 300, 26, 20, 37, 13);
  c.check("52 rows");
}

TEST(DecodeAttention, FewQueriesGoByKeys) {
  Case c = step(1, 8, 20, 2, 1);
  EXPECT_TRUE(isFasterByKeys(c.args));
  c.args.seq_q = 9;
  EXPECT_FALSE(isFasterByKeys(c.args));
  // The bits of the device's result show which variant ran.
  for (int64_t sq : {1, 20}) {
    Case byAbi = step(1, sq, 700, 4, 2), other = step(1, sq, 700, 4, 2);
    run(byAbi);
    auto world = World::threads(Grid({{"tp", 1}}), 1);
    CpuDevice memory(world->local(0));
    Arena scratch(memory);
    (isFasterByKeys(other.args) ? attendByKeys : attendByQueries)(world->local(0), scratch,
                                                                  other.args);
    EXPECT_EQ(byAbi.out, other.out);
  }
}

TEST(DecodeAttention, SameBitsForEveryNumberOfThreads) {
  for (int64_t sq : {1, 5}) {
    std::vector<float> first;
    for (int threads : {1, 2, 5}) {
      Case c = step(2, sq, 1000, 6, 3);
      std::vector<float> out = run(c, threads);
      if (first.empty())
        first = out;
      EXPECT_EQ(out, first) << threads;
    }
  }
}

TEST(DecodeAttention, ARowHasTheBitsOfTheRowAlone) {
  // The result of a query must not depend on the rest of its batch, group, or step.
  constexpr int64_t keys = 600, size = 24;
  for (const KernelTable *table : allTables()) {
    Case c = step(3, 4, keys, 6, 3, size);
    c.decode(*table);
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t h = 0; h < 6; ++h) {
          Case alone = step(1, 1, keys, 1, 1, size);
          alone.args.causal_offset = keys - 4 + i;
          alone.args.q = c.args.q + (b * 4 + i) * 6 * size + h * size;
          alone.args.k = c.args.k + b * keys * 2 * size + h / 3 * size;
          alone.args.v = c.args.v + b * keys * 2 * size + h / 3 * size;
          alone.args.k_row_stride = alone.args.v_row_stride = 2 * size;
          alone.decode(*table);
          for (int64_t d = 0; d < size; ++d)
            ASSERT_EQ(alone.out[d], c.out[((b * 4 + i) * 6 + h) * size + d])
                << table->name << " row " << b << " query " << i << " head " << h;
        }
  }
}

TEST(DecodeAttention, HiddenKeysAreNotRead) {
  // Keys after the last query, and before the first query's window; some ranges are partly visible.
  for (int64_t position : {3, 255, 256, 600})
    for (int64_t window : {1, 40, 256, 2000}) {
      Case c = step(1, 1, 700, 2, 2);
      c.args.causal_offset = position;
      c.args.windowed = 1;
      c.args.window_offset = position - window;
      std::vector<float> expected = run(c);
      for (int64_t j = 0; j < 700; ++j)
        if (j > position || j <= position - window)
          for (int64_t d = 0; d < 16; ++d)
            c.k[j * 16 + d] = c.v[j * 16 + d] = nan;
      EXPECT_EQ(run(c), expected) << position << " " << window;
    }
}

TEST(DecodeAttention, WindowsAcrossParts) {
  for (int64_t window : {1, 100, 300, 600})
    for (int64_t offset : {250, 256, 690}) {
      Case c(1, 5, 700, 2, 8, 8, 2);
      c.args.causal = c.args.windowed = 1;
      c.args.causal_offset = offset;
      c.args.window_offset = offset - window;
      c.check("window " + std::to_string(window) + " at " + std::to_string(offset));
    }
}

TEST(DecodeAttention, PartsWithoutAVisibleKey) {
  for (int32_t maskedRow : {0, 1})
    for (int64_t visible : {-1, 0, 300, 699}) {
      Case c(2, 2, 700, 2, 8, 8);
      c.keyMask.assign(2 * 700, 0);
      if (visible >= 0)
        c.keyMask[visible] = 1; // the only visible key of the first batch entry
      c.args.key_mask = c.keyMask.data();
      c.args.masked_row = maskedRow;
      c.check("one key, " + std::to_string(visible));
    }
}

TEST(DecodeAttention, SlopesAndSoftcapAcrossParts) {
  std::vector<float> slopes = {0.01f, -0.02f, 0.05f, 0.5f};
  Case c(1, 3, 700, 4, 8, 8, 2);
  c.args.slopes = slopes.data();
  c.args.slopes_offset = 690;
  c.args.softcap = 4;
  c.args.causal = 1;
  c.args.causal_offset = 690;
  c.check("slopes", 2e-5);
}

TEST(DecodeAttention, SinksAcrossParts) {
  std::vector<float> sinks = {0.5f, -2.0f, 30.0f, -INFINITY};
  Case c(1, 3, 700, 4, 8, 8, 2);
  c.args.sinks = sinks.data();
  c.args.causal = 1;
  c.args.causal_offset = 690;
  c.check("sinks");
  c.args.causal_offset = -2; // two queries see no key
  c.check("sinks without keys");
}

TEST(DecodeAttention, TheLargestScoreInAnyPart) {
  // The weight of all other keys underflows, in the same range and in other ranges.
  for (int64_t at : {0, 300, 699}) {
    Case c(1, 1, 700, 1, 8, 8);
    for (int64_t d = 0; d < 8; ++d)
      c.k[at * 8 + d] = 1000 * c.q[d];
    c.check("large at " + std::to_string(at), 1e-5);
  }
}

TEST(DecodeAttention, NaNStaysInItsRow) {
  // NaN in a query, in a key visible to one row, and in a row with no other visible key.
  Case c = step(1, 3, 600, 2, 2);
  c.q[(1 * 2 + 1) * 16] = nan;
  c.k[599 * 16] = nan;
  std::vector<float> out = run(c);
  for (int64_t row = 0; row < 6; ++row)
    EXPECT_EQ(std::isnan(out[row * 16]), row == 3 || row >= 4) << row;
  Case only(1, 1, 600, 1, 8, 8);
  only.keyMask.assign(600, 0);
  only.keyMask[280] = 1;
  only.args.key_mask = only.keyMask.data();
  only.k[280 * 8] = nan;
  EXPECT_TRUE(std::isnan(run(only)[0]));
}

} // namespace
