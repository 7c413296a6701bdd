//===- GemvTest.cpp - Matrix-vector kernels in the interpreter ------------===//

#include "GemvCases.h"

#include <gtest/gtest.h>

using namespace gemv;
using namespace tpc::gemv;

namespace {

bool isLong() {
  const char *level = std::getenv("TPC_TESTS");
  return level && std::string_view(level) == "long";
}

TEST(Gemv, EqualsSumsOfDoubles) {
  const uint64_t cases = isLong() ? 200 : 12;
  for (const Variant &variant : getVariants())
    for (uint64_t seed = 0; seed < cases; ++seed) {
      Case made = drawCase(variant, seed + 1000 * static_cast<uint64_t>(variant.m));
      ASSERT_TRUE(supports(variant.element, variant.transposed, variant.m, made.k, made.n,
                           (variant.transposed ? made.k : made.n) + made.wPadding))
          << made.str();
      Outcome outcome = run(getModule(variant), made);
      ASSERT_EQ(outcome.problem, "") << made.str();
    }
}

TEST(Gemv, AddsAnyNumberOfSplits) {
  for (const Variant &variant : getVariants())
    for (const Case &made : getSplitCases(variant)) {
      Grid grid = getGrid(variant, made.k, made.n, made.multiprocessors);
      ASSERT_EQ(grid.splits * kRowsAtOnce * kRowsOfChunk, made.k);
      EXPECT_EQ(run(getModule(variant), made).problem, "") << made.str();
    }
}

/// Bits do not depend on the order in which blocks add splits of k. The last range of columns and
/// the last chunk are partial.
TEST(Gemv, HasTheSameBitsInAnyOrder) {
  for (int32_t element : {TPC_F32, TPC_BF16}) {
    Case made;
    made.variant = {element, false, 2};
    made.k = kRowsOfChunk * (3 * kRowsAtOnce - 5);
    made.n = getColumns(element) + getVector(element);
    made.bias = made.residual = true;
    ASSERT_EQ(getGrid(made.variant, made.k, made.n, made.multiprocessors).splits, 3);
    std::vector<uint32_t> bits;
    for (made.order = 0; made.order < 20; ++made.order) {
      Outcome outcome = run(getModule(made.variant), made);
      ASSERT_EQ(outcome.problem, "") << made.str();
      if (made.order)
        EXPECT_EQ(outcome.bits, bits) << made.str();
      bits = outcome.bits;
    }
  }
}

/// The result of row b has the same bits whether there are one or four rows. (Operands of a row
/// depend only on its index.)
TEST(Gemv, RowsDoNotDependOnOthers) {
  for (const Variant &variant : getVariants()) {
    if (variant.m != 4)
      continue;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Case made = drawCase(variant, 17 * seed + 5);
      made.wide = variant.element != TPC_F32; // rounding would hide differences
      Outcome all = run(getModule(variant), made);
      ASSERT_EQ(all.problem, "") << made.str();
      for (made.variant.m = 1; made.variant.m < 4; ++made.variant.m) {
        std::vector<uint32_t> own = run(getModule(variant), made).bits;
        EXPECT_TRUE(std::equal(own.begin(), own.end(), all.bits.begin())) << made.str();
      }
    }
  }
}

/// Each byte of w is read once, by accesses of 16 bytes. Nothing else is accessed but the other
/// operands, results and, if k is split, partial sums.
TEST(Gemv, ReadsEachWeightOnce) {
  for (const Variant &variant : getVariants()) {
    Case made;
    made.variant = variant;
    made.k = variant.transposed ? getVector(variant.element) * kWarp * (kLoads + 1)
                                : kRowsOfChunk * kRowsAtOnce * 2;
    made.n = variant.transposed ? 2 * kWarps * getRowsOfWarp(variant.m)
                                : 2 * getColumns(variant.element);
    made.bias = made.residual = true;
    made.alignment = 32; // accesses of 16 bytes share sectors
    Outcome outcome = run(getModule(variant), made);
    ASSERT_EQ(outcome.problem, "") << made.str();
    auto bytes = static_cast<uint64_t>(getBytes(variant.element));
    auto weights = static_cast<uint64_t>(made.k * made.n) * bytes;
    auto results = static_cast<uint64_t>(variant.m * made.n) * bytes;
    const ptx::Traffic &w = outcome.counters.allocations.at("w"),
                       &x = outcome.counters.allocations.at("x"),
                       &out = outcome.counters.allocations.at("out");
    EXPECT_EQ(w.readBytes, weights) << made.str();
    EXPECT_EQ(32 * w.readSectors, weights) << made.str();
    EXPECT_EQ(w.readRequests, weights / 16 / kWarp) << made.str();
    EXPECT_EQ(x.distinctReadBytes, static_cast<uint64_t>(variant.m * made.k) * bytes);
    EXPECT_EQ(out.writtenBytes, results);
    EXPECT_EQ(outcome.counters.allocations.at("residual").readBytes, results);
    ptx::Traffic all = outcome.counters.global;
    Grid grid = getGrid(variant, made.k, made.n, made.multiprocessors);
    auto partials = static_cast<uint64_t>(getPartialBytes(variant, grid));
    uint64_t counters = grid.splits > 1 ? static_cast<uint64_t>(grid.ranges) * 4 : 0;
    EXPECT_EQ(all.distinctReadBytes, weights + x.distinctReadBytes + results +
                                         static_cast<uint64_t>(made.n) * bytes + partials +
                                         counters)
        << made.str();
  }
}

/// Grids of the shapes whose speed was measured on an H100.
TEST(Gemv, SplitsFillMultiprocessors) {
  struct Shape {
    int64_t k, n, splits, blocks;
  };
  for (Shape shape : {Shape{2048, 2048, 8, 256},
                      {2048, 3072, 4, 192},
                      {8192, 2048, 8, 256},
                      {2048, 16384, 1, 256},
                      {4096, 4096, 4, 256},
                      {2048, 128256, 1, 2004},
                      {8, 8, 1, 1}}) {
    Grid grid = getGrid({TPC_BF16, false, 1}, shape.k, shape.n, 132);
    EXPECT_EQ(grid.splits, shape.splits) << shape.k << " x " << shape.n;
    EXPECT_EQ(grid.blocks, shape.blocks) << shape.k << " x " << shape.n;
    EXPECT_GE(grid.splits * grid.chunks * kRowsOfChunk, shape.k);
  }
}

/// A size is supported for all numbers of rows if four rows fit into shared memory and the grid has
/// few blocks.
TEST(Gemv, FusesSizesOfLayers) {
  EXPECT_TRUE(supportsFused(TPC_BF16, 2048, 16384, 16384, true, 132));
  EXPECT_TRUE(supportsFused(TPC_BF16, 4096, 28672, 28672, true, 132));
  EXPECT_TRUE(supportsFused(TPC_F32, 768, 2304, 2304, false, 132));
  EXPECT_FALSE(supportsFused(TPC_BF16, 2048, 128256, 128256, false, 132)); // blocks
  EXPECT_FALSE(supportsFused(TPC_BF16, 8192, 28672, 28672, true, 132));    // shared memory
  EXPECT_FALSE(supportsFused(TPC_BF16, 64, 24, 24, true, 132)); // halves without 16-byte accesses
  EXPECT_TRUE(supportsFused(TPC_BF16, 64, 24, 24, false, 132));
  EXPECT_FALSE(supportsFused(TPC_BF16, 60, 32, 32, false, 132));
}

TEST(Gemv, RejectsUnsupportedSizes) {
  EXPECT_TRUE(supports(TPC_BF16, false, 1, 8, 8, 8));
  EXPECT_TRUE(supports(TPC_F32, true, 4, 4, 7, 4));
  EXPECT_TRUE(supports(TPC_BF16, false, 1, 8, 8, 24));
  EXPECT_FALSE(supports(TPC_BF16, false, 1, 8, 8, 12));
  EXPECT_FALSE(supports(TPC_BF16, false, 1, 8, 16, 8));
  EXPECT_FALSE(supports(TPC_BF16, false, 1, 12, 8, 8));
  EXPECT_FALSE(supports(TPC_BF16, false, 1, 8, 12, 12));
  EXPECT_FALSE(supports(TPC_BF16, true, 1, 12, 8, 12));
  EXPECT_FALSE(supports(TPC_F32, true, 1, 6, 8, 6));
  EXPECT_FALSE(supports(TPC_F32, true, 0, 8, 8, 8));
  EXPECT_FALSE(supports(TPC_F32, true, 5, 8, 8, 8));
  EXPECT_FALSE(supports(TPC_F32, true, 1, 0, 8, 0));
  EXPECT_FALSE(supports(TPC_F32, true, 1, 8, 0, 8));
  EXPECT_FALSE(supports(TPC_I32, true, 1, 8, 8, 8));
  EXPECT_FALSE(supports(TPC_F32, true, 1, 8, int64_t(1) << 31, 8));
}

} // namespace
