//===- ArenaTest.cpp - Tests of frames, grids, sums and 16-bit floats -----===//

#include "core/Arena.h"
#include "Reference.h"
#include "core/Half.h"
#include "core/Reduce.h"
#include "core/World.h"
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {
/// An arena of a single rank's device.
struct SingleRankArena {
  std::unique_ptr<World> world = World::threads(Grid({{"tp", 1}}), 1);
  Arena arena{*world->local(0).device};
};
} // namespace

TEST(Arena, FramesAreAlignedAndDisjoint) {
  SingleRankArena rank;
  Arena &arena = rank.arena;
  std::vector<std::pair<char *, int64_t>> frames;
  for (int i = 0; i < 200; ++i) {
    int64_t bytes = (i * 7919) % 30011; // sometimes 0
    auto *frame = static_cast<char *>(arena.push(bytes));
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame) % 64, 0u);
    memset(frame, i, bytes);
    frames.emplace_back(frame, bytes);
  }
  for (int i = 0; i < 200; ++i)
    for (int64_t b = 0; b < frames[i].second; ++b)
      ASSERT_EQ(static_cast<unsigned char>(frames[i].first[b]), i);
  EXPECT_TRUE(arena.pop(frames[0].first));
  EXPECT_EQ(arena.used(), 0u);
}

TEST(Arena, OneChunkAfterTheFirstStep) {
  SingleRankArena rank;
  Arena &arena = rank.arena;
  auto step = [&] {
    void *first = arena.push(100);
    for (int64_t bytes : {1 << 20, 3 << 20, 5, 700000}) {
      arena.push(bytes);
      void *inner = arena.push(bytes / 2);
      EXPECT_TRUE(arena.pop(inner));
    }
    EXPECT_TRUE(arena.pop(first));
  };
  step();
  uint64_t allocations = arena.allocations();
  EXPECT_EQ(arena.reserved(), arena.peak());
  for (int i = 0; i < 3; ++i)
    step();
  EXPECT_EQ(arena.allocations(), allocations);
}

TEST(Arena, PopFreesAllThatWasPushedSince) {
  SingleRankArena rank;
  Arena &arena = rank.arena;
  void *a = arena.push(Arena::alignment), *b = arena.push(1 << 20);
  arena.push(1 << 21);
  EXPECT_TRUE(arena.pop(b));
  EXPECT_EQ(arena.used(), static_cast<uint64_t>(Arena::alignment));
  EXPECT_FALSE(arena.pop(b)) << "it is no longer on the stack";
  EXPECT_TRUE(arena.pop(a));
  EXPECT_FALSE(arena.pop(a));
}

TEST(Arena, RejectsInvalidSizes) {
  SingleRankArena rank;
  Arena &arena = rank.arena;
  EXPECT_EQ(arena.push(-1), nullptr);
  EXPECT_EQ(arena.push(INT64_MAX), nullptr);
  EXPECT_EQ(arena.push(int64_t(1) << 61), nullptr);
  void *frame = arena.push(8);
  ASSERT_NE(frame, nullptr);
  arena.clear();
  EXPECT_EQ(arena.used(), 0u);
}

TEST(Grid, GroupsAreThoseWithEqualCoordinates) {
  Grid grid({{"tp", 2}, {"cp", 1}, {"dp", 3}, {"pp", 2}});
  EXPECT_EQ(grid.numRanks(), 12);
  for (int rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(grid.rankOf(grid.coordinatesOf(rank)), rank);
    for (uint32_t axes = 0; axes <= grid.allAxes(); ++axes) {
      Group group = grid.groupOf(rank, axes);
      EXPECT_EQ(group.ranks, membersOf(grid, rank, axes));
      EXPECT_EQ(group.ranks[group.index], rank);
    }
  }
  // Expected groups: dp has stride 2, pp 6.
  EXPECT_EQ(grid.groupOf(3, 4).ranks, (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(grid.groupOf(3, 8).ranks, (std::vector<int>{3, 9}));
  EXPECT_EQ(grid.groupOf(3, 9).ranks, (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(grid.label(9), "tp-pp");
}

TEST(Grid, PartsFollowEachOther) {
  Grid grid({{"tp", 2}, {"dp", 3}});
  for (uint32_t axes = 0; axes < 4; ++axes)
    for (int64_t n = 0; n < 40; ++n) {
      Group group = grid.groupOf(0, axes);
      auto expected = indicesOf(n, sizesOf(grid, axes));
      ASSERT_EQ(expected.size(), size_t(group.size()));
      int64_t next = 0;
      for (int member = 0; member < group.size(); ++member) {
        Part part = group.part(n, member);
        EXPECT_EQ(part.offset, next);
        EXPECT_EQ(part.size, int64_t(expected[member].size()));
        next += part.size;
      }
      EXPECT_EQ(next, n);
    }
  // Seven over dp3 gives 3, 2, 2, each split over tp2.
  Group group = grid.groupOf(0, 3);
  std::vector<int64_t> sizes;
  for (int member = 0; member < 6; ++member)
    sizes.push_back(group.part(7, member).size);
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 1, 1, 1, 1, 1}));
}

TEST(Reduce, AddsFromLeftToRight) {
  for (int members : {1, 2, 3, 5, 8})
    for (int64_t count : {0, 1, 3, 1023, 2048, 5001}) {
      std::vector<std::vector<float>> in(members, std::vector<float>(count));
      std::vector<const void *> pointers;
      for (int m = 0; m < members; ++m) {
        for (int64_t i = 0; i < count; ++i)
          in[m][i] = valueOf<float>(2, m, i);
        pointers.push_back(in[m].data());
      }
      std::vector<float> expected(count);
      for (int64_t i = 0; i < count; ++i) {
        expected[i] = in[0][i];
        for (int m = 1; m < members; ++m)
          expected[i] += in[m][i];
      }
      // Writes to a separate tensor, then to each of the inputs.
      std::vector<float> out(count);
      reduce(TPC_F32, TPC_SUM, out.data(), pointers.data(), members, count);
      EXPECT_TRUE(sameBits(out, expected));
      for (int m = 0; m < members; ++m) {
        std::vector<float> saved = in[m];
        reduce(TPC_F32, TPC_SUM, in[m].data(), pointers.data(), members, count);
        EXPECT_TRUE(sameBits(in[m], expected)) << "into input " << m;
        in[m] = saved;
      }
    }
}

// Tests each half, its neighbor above, and values between them: ties round to even.
template <typename Widen, typename Narrow>
void checkRounding(uint16_t infinity, float nextAfterLargest, Widen widen, Narrow narrow) {
  // The successor of the largest bfloat is no f32: that interval is skipped.
  uint16_t end = std::isinf(nextAfterLargest) ? infinity - 1 : infinity;
  for (uint16_t low = 0; low < end; ++low)
    for (uint16_t sign : {0, 0x8000}) {
      uint16_t high = low + 1;
      float below = widen(low | sign), up = sign ? -1.0f : 1.0f;
      float above = high == infinity ? up * nextAfterLargest : widen(high | sign);
      ASSERT_EQ(narrow(below), low | sign);
      float middle = std::midpoint(below, above), inf = up * INFINITY;
      ASSERT_EQ(narrow(middle), (low % 2 ? high : low) | sign) << low;
      ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), low | sign) << low;
      ASSERT_EQ(narrow(std::nextafter(middle, inf)), high | sign) << low;
    }
  EXPECT_EQ(widen(infinity), INFINITY);
  EXPECT_EQ(narrow(-INFINITY), infinity | 0x8000);
  EXPECT_TRUE(std::isnan(widen(narrow(NAN))));
  EXPECT_TRUE(std::isnan(widen(narrow(std::bit_cast<float>(0x7f800001)))));
}

TEST(Half, RoundsToTheNearestEvenOne) {
  checkRounding(0x7c00, 65536.0f, halfToFloat, floatToHalf);
  for (uint16_t bits = 0; bits < 0x7c00; ++bits) {
    int exponent = bits >> 10, mantissa = bits & 1023;
    ASSERT_EQ(halfToFloat(bits),
              std::ldexp(exponent ? mantissa + 1024 : mantissa, std::max(exponent, 1) - 25));
  }
  EXPECT_EQ(floatToHalf(70000.0f), 0x7c00);
}

TEST(Bfloat, RoundsToTheNearestEvenOne) {
  checkRounding(0x7f80, INFINITY, bfloatToFloat, floatToBfloat);
}

// 2048 + 1 + 1 is 2050; intermediate rounding would give 2048.
TEST(Reduce, RoundsSumsOfHalvesOnce) {
  uint16_t large = floatToHalf(2048), one = floatToHalf(1), out = 0;
  const void *in[] = {&large, &one, &one};
  reduce(TPC_F16, TPC_SUM, &out, in, 3, 1);
  EXPECT_EQ(halfToFloat(out), 2050);
  reduce(TPC_F16, TPC_MIN, &out, in, 3, 1);
  EXPECT_EQ(halfToFloat(out), 1);
  large = floatToBfloat(256), one = floatToBfloat(1);
  reduce(TPC_BF16, TPC_SUM, &out, in, 3, 1);
  EXPECT_EQ(bfloatToFloat(out), 258);
  reduce(TPC_BF16, TPC_MAX, &out, in, 3, 1);
  EXPECT_EQ(bfloatToFloat(out), 256);
}

TEST(Reduce, ReportsSupportedTypes) {
  for (int32_t dtype : {TPC_F32, TPC_F64, TPC_F16, TPC_BF16, TPC_I32, TPC_I64})
    for (int32_t reduction : {TPC_SUM, TPC_MAX, TPC_MIN})
      EXPECT_TRUE(canReduce(dtype, reduction));
  for (int32_t dtype : {TPC_I8, TPC_I16, TPC_BOOL, TPC_U8})
    EXPECT_FALSE(canReduce(dtype, TPC_SUM));
  EXPECT_FALSE(canReduce(TPC_F32, 3));
  EXPECT_FALSE(canReduce(-1, TPC_SUM));
}
