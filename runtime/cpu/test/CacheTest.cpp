//===- CacheTest.cpp - Attention over caches, and appends to them ---------===//

#include "AttentionCase.h"
#include "cpu/Attention.h"
#include "cpu/CpuDevice.h"
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace tpc::rt;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Keys and values [batch, heads, capacity, size], in cache layout. Entries that are visible to no
/// query are NaN.
struct CacheCase : Case {
  std::vector<int64_t> lengths;

  CacheCase(std::vector<int64_t> ofRows, int64_t sq, int64_t capacity, int64_t heads,
            int64_t group = 1, int64_t size = 16, int64_t window = 0)
      : Case(std::ssize(ofRows), sq, capacity, heads, size, size, group),
        lengths(std::move(ofRows)) {
    args.lengths = lengths.data();
    args.causal = 1;
    args.windowed = window > 0;
    args.window_offset = -window;
    args.k_row_stride = args.v_row_stride = size;
    args.k_head_stride = args.v_head_stride = capacity * size;
    args.k_batch_stride = args.v_batch_stride = args.heads_kv * capacity * size;
    for (int64_t i = 0; i < std::ssize(k); ++i) {
      int64_t key = i / size % capacity, before = lengths[i / args.k_batch_stride];
      if (key >= before + sq || (window && key <= before - window))
        k[i] = v[i] = nan;
    }
  }

  void check(const std::string &what) {
    std::vector<float> expected = expectedOf(args);
    for (float x : expected)
      ASSERT_FALSE(std::isnan(x)) << what;
    for (int threads : {1, 2})
      for (auto attend : {attendByQueries, attendByKeys}) {
        auto world = World::threads(Grid({{"tp", 1}}), threads);
        CpuDevice memory(world->local(0));
        Arena scratch(memory);
        std::fill(out.begin(), out.end(), 9.0f);
        attend(world->local(0), scratch, args);
        compare(expected, 5e-6, what + (attend == attendByKeys ? ", by keys" : ", by queries"));
      }
    auto world = World::threads(Grid({{"tp", 1}}), 2);
    std::fill(out.begin(), out.end(), 9.0f);
    tpc_attention(&world->local(0), &args);
    compare(expected, 5e-6, what + ", by the ABI");
  }
};

TEST(Cache, EachSequenceHasItsLength) {
  for (int64_t sq : {1, 3, 8, 33, 70})
    for (int64_t group : {1, 3})
      CacheCase({0, 1, 5, 255, 256, 257, 700 - sq}, sq, 700, 3, group)
          .check("sq " + std::to_string(sq) + " group " + std::to_string(group));
}

TEST(Cache, WindowsMoveWithTheLength) {
  for (int64_t sq : {1, 9, 40})
    for (int64_t window : {1, 40, 256, 2000})
      CacheCase({0, 3, 300, 600 - sq}, sq, 600, 2, 2, 8, window)
          .check("sq " + std::to_string(sq) + " window " + std::to_string(window));
}

TEST(Cache, SlopesSeeTheLength) {
  for (int64_t sq : {1, 20}) {
    std::vector<float> slopes = {0.5f, -0.125f};
    CacheCase c({0, 11, 280}, sq, 300, 2);
    c.args.slopes = slopes.data();
    c.check("slopes");
  }
}

TEST(Cache, PaddingBeyondTheCapacityIsHarmless) {
  // The last two queries of the second sequence are after the last entry, so that all keys are
  // visible to them.
  CacheCase c({0, 10}, 4, 12, 2);
  std::vector<float> expected = expectedOf(c.args);
  c.check("padding");
}

TEST(Cache, ARowHasTheBitsOfTheRowAlone) {
  for (int64_t sq : {1, 5, 40}) {
    CacheCase c({0, 3, 260, 510}, sq, 600, 6, 3);
    auto world = World::threads(Grid({{"tp", 1}}), 2);
    tpc_attention(&world->local(0), &c.args);
    int64_t row = sq * 6 * 16;
    for (int64_t b = 0; b < 4; ++b) {
      std::vector<float> out(static_cast<size_t>(row), 9.0f);
      tpc_attention_args alone = c.args;
      alone.batch = 1;
      alone.lengths += b;
      alone.q += b * row;
      alone.k += b * alone.k_batch_stride;
      alone.v += b * alone.v_batch_stride;
      alone.out = out.data();
      tpc_attention(&world->local(0), &alone);
      EXPECT_EQ(out, std::vector(c.out.begin() + b * row, c.out.begin() + (b + 1) * row)) << b;
    }
  }
}

TEST(Cache, AppendWritesAfterEachLengthOnly) {
  int64_t batch = 4, heads = 2, sequence = 3, capacity = 8, size = 5;
  std::vector<int64_t> lengths = {0, 2, 5, 7};
  std::vector<float> cache = numbers(batch * heads * capacity * size, 1);
  // [batch, sequence, heads, size], as a matmul writes it: in place, without a transpose.
  std::vector<float> fresh = numbers(batch * sequence * heads * size, 2), expected = cache;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < sequence && lengths[b] + i < capacity; ++i)
        for (int64_t d = 0; d < size; ++d)
          expected[((b * heads + h) * capacity + lengths[b] + i) * size + d] =
              fresh[((b * sequence + i) * heads + h) * size + d];
  tpc_append_args args = {};
  args.cache = cache.data();
  args.fresh = fresh.data();
  args.lengths = lengths.data();
  args.batch = batch;
  args.heads = heads;
  args.sequence = sequence;
  args.capacity = capacity;
  args.size = size;
  args.fresh_batch_stride = sequence * heads * size;
  args.fresh_head_stride = size;
  args.fresh_row_stride = heads * size;
  args.dtype = TPC_F32;
  auto world = World::threads(Grid({{"tp", 1}}), 2);
  tpc_append(&world->local(0), &args);
  EXPECT_EQ(cache, expected);
  args.batch = 0;
  args.cache = nullptr;
  tpc_append(&world->local(0), &args); // no work
}

TEST(Cache, StateKeepsItsAddress) {
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  tpc_context &ctx = world->local(0);
  auto *first = static_cast<float *>(tpc_state(&ctx, 1, 64));
  first[15] = 7;
  auto *other = static_cast<float *>(tpc_state(&ctx, 0, 64));
  EXPECT_NE(other, first);
  EXPECT_EQ(tpc_state(&ctx, 1, 64), first);
  EXPECT_EQ(first[15], 7.0f);
  // Another size reallocates the shard.
  uint64_t moves = ctx.state.moves();
  EXPECT_EQ(ctx.state.bytes(), 128);
  static_cast<float *>(tpc_state(&ctx, 1, 128))[31] = 1;
  EXPECT_EQ(ctx.state.moves(), moves + 1);
  EXPECT_EQ(ctx.state.bytes(), 192);
  ctx.state.clear(*ctx.device);
  EXPECT_EQ(static_cast<float *>(tpc_state(&ctx, 1, 128))[31], 0.0f);
}

int64_t residentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Unused capacity is not touched.
TEST(Cache, UnwrittenCapacityUsesNoMemory) {
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  int64_t before = residentBytes();
  auto *memory = static_cast<std::byte *>(tpc_state(&world->local(0), 0, int64_t(1) << 30));
  memory[12345] = std::byte(1);
  EXPECT_LT(residentBytes() - before, int64_t(1) << 29);
}

// The ABI allows more; devices support one page per sequence.
TEST(Cache, PageTablesAreRejected) {
  int64_t pages[] = {0};
  auto problemOf = [](const std::function<void(tpc_context &)> &call) {
    return World::threads(Grid({{"tp", 1}}), 1)->run(call).value_or("");
  };
  tpc_append_args append = {};
  append.pages = pages;
  tpc_attention_args attention = {};
  attention.batch = attention.seq_q = attention.heads_q = attention.heads_kv = 1;
  attention.value_size = 1;
  attention.pages = pages;
  for (const std::string &problem :
       {problemOf([&](tpc_context &ctx) { tpc_append(&ctx, &append); }),
        problemOf([&](tpc_context &ctx) { tpc_attention(&ctx, &attention); })})
    EXPECT_NE(problem.find("a table of pages, but each sequence must have one page"),
              std::string::npos)
        << problem;
}

TEST(Cache, AStepUsesSomeOfTheRows) {
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  tpc_context &ctx = world->local(0);
  ctx.stateRows = 4;
  ctx.stepRows = 1;
  auto *first = static_cast<std::byte *>(tpc_state(&ctx, 0, 64));
  ctx.stateRow = 3;
  EXPECT_EQ(tpc_state(&ctx, 0, 64), first + 3 * 64);
  ctx.stateRow = 1;
  ctx.stepRows = 2;
  EXPECT_EQ(tpc_state(&ctx, 0, 128), first + 64);
  ctx.stateRow = 0;
  ctx.stepRows = 4;
  EXPECT_EQ(tpc_state(&ctx, 0, 256), first);
  ctx.stateRow = 3;
  ctx.stepRows = 2;
  auto error = world->run([](tpc_context &each) { tpc_state(&each, 0, 128); });
  EXPECT_NE(error.value_or("").find("are not 2 rows of 4, from row 3"), std::string::npos);
}

} // namespace
