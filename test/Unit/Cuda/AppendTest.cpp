//===- AppendTest.cpp - Runtime kernels that append to caches -------------===//
//
// Tests which memory the append kernels access, and what they write. The device suite also tests
// the contents of caches (runtime/conformance/AppendTest.cpp).
//
//===----------------------------------------------------------------------===//

#include "cuda/library/AppendKernels.h"

#include "tpc/Conversion/Cuda/Cuda.h"

#include "Ptx/Ptx.h"

#include <gtest/gtest.h>

using namespace mlir::tpc;
using tpc::rt::cuda::AppendLaunch;

namespace {

ptx::Module parse(const std::string &text) {
  std::string error;
  auto module = ptx::parse(text, error);
  EXPECT_TRUE(module) << error;
  return module.value_or(ptx::Module());
}

const ptx::Module &kernels() {
  static const ptx::Module module = parse(tpc::rt::cuda::appendKernels());
  return module;
}

/// Appends [batch, sequence, heads, size] to a cache of [batch, heads, capacity, size].
struct Append {
  int64_t batch = 1, heads = 1, sequence = 1, capacity = 64, size = 64;
  int32_t dtype = TPC_F32;
  int64_t bytes = 4, padding = 0; ///< per element; elements after each token's heads
  std::vector<int64_t> lengths = {0};

  ptx::Counters run(unsigned blocks, int expectedWidth) const {
    auto [result, isRight] = run(blocks, kernels(), expectedWidth);
    EXPECT_TRUE(result.clean()) << result.str();
    EXPECT_TRUE(isRight);
    return result.counters;
  }

  /// Also returns whether the cache has the expected contents.
  std::pair<ptx::Result, bool> run(unsigned blocks, const ptx::Module &module,
                                   int expectedWidth) const {
    ptx::Memory memory(1);
    int64_t row = heads * size + padding;
    uint64_t cache = memory.allocate(size_t(batch * heads * capacity * size * bytes), "cache");
    uint64_t fresh = memory.allocate(size_t(batch * sequence * row * bytes), "fresh");
    std::vector<uint8_t> values(size_t(batch * sequence * row * bytes));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = uint8_t(i * 7 + i / 256);
    std::vector<uint8_t> expected(size_t(batch * heads * capacity * size * bytes), 3);
    EXPECT_TRUE(memory.copyIn(cache, expected.data(), expected.size()));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0, before = std::max<int64_t>(lengths[size_t(b)], 0);
             before < capacity && i < std::min(sequence, capacity - before); ++i)
          std::copy_n(values.begin() + ((b * sequence + i) * row + h * size) * bytes, size * bytes,
                      expected.begin() + ((b * heads + h) * capacity + before + i) * size * bytes);
    EXPECT_TRUE(memory.copyIn(fresh, values.data(), values.size()));
    memory.setReadOnly(fresh);
    uint64_t at = memory.allocate(lengths.size() * sizeof(int64_t), "lengths");
    EXPECT_TRUE(memory.copyIn(at, lengths.data(), lengths.size() * sizeof(int64_t)));
    memory.setReadOnly(at);
    tpc_append_args args = {};
    args.cache = reinterpret_cast<void *>(cache);
    args.fresh = reinterpret_cast<void *>(fresh);
    args.lengths = reinterpret_cast<int64_t *>(at);
    args.batch = batch;
    args.heads = heads;
    args.sequence = sequence;
    args.capacity = capacity;
    args.size = size;
    args.fresh_head_stride = size;
    args.fresh_row_stride = row;
    args.fresh_batch_stride = sequence * row;
    args.dtype = dtype;
    AppendLaunch launch(args);
    EXPECT_EQ(launch.width, expectedWidth);
    std::vector<ptx::Argument> arguments;
    launch.forEachParameter([&](auto value) { arguments.push_back(ptx::Argument::of(value)); });
    ptx::Result result =
        ptx::launch(module, launch.name(), arguments, memory,
                    {.grid = {blocks}, .block = {AppendLaunch::threads}, .seed = blocks});
    std::vector<uint8_t> found(expected.size());
    EXPECT_TRUE(memory.copyOut(found.data(), cache, found.size()));
    return {result, found == expected};
  }
};

TEST(AppendKernels, TargetTheOldestArchitecture) {
  std::string text = tpc::rt::cuda::appendKernels();
  EXPECT_EQ(llvm::toString(cuda::checkRounding(text)), "");
  EXPECT_NE(text.find(".target sm_80\n"), std::string::npos);
  EXPECT_EQ(kernels().kernels().size(), std::size(AppendLaunch::widths));
}

/// Accesses have 16 bytes if sizes allow it, and each sector is accessed once.
TEST(AppendKernels, MoveNewTokensOnce) {
  struct {
    Append append;
    int width;
  } cases[] = {
      {{.batch = 3, .heads = 4, .lengths = {0, 5, 63}}, 16},
      {{.heads = 2, .sequence = 20, .size = 80, .lengths = {11}}, 16},
      {{.heads = 3, .size = 64, .dtype = TPC_F16, .bytes = 2, .lengths = {9}}, 16},
      {{.heads = 3, .sequence = 4, .size = 80, .dtype = TPC_BF16, .bytes = 2, .lengths = {9}}, 16},
      {{.heads = 2, .sequence = 5, .size = 64, .padding = 2, .lengths = {1}}, 8},
      {{.heads = 2,
        .sequence = 5,
        .size = 64,
        .dtype = TPC_F16,
        .bytes = 2,
        .padding = 1,
        .lengths = {1}},
       2},
  };
  for (const auto &[append, width] : cases)
    for (unsigned blocks : {1u, 2u, 64u}) {
      ptx::Counters counters = append.run(blocks, width);
      int64_t bytes = append.batch * append.heads * append.sequence * append.size * append.bytes;
      const ptx::Traffic &written = counters.allocations.at("cache");
      EXPECT_EQ(written.writtenBytes, uint64_t(bytes));
      EXPECT_EQ(written.distinctWrittenBytes, uint64_t(bytes));
      EXPECT_EQ(written.readBytes, 0u);
      const ptx::Traffic &read = counters.allocations.at("fresh");
      EXPECT_EQ(read.readBytes, uint64_t(bytes));
      // Rows of the cache are whole sectors. Source rows may share sectors with the next row. Then
      // a warp that is not full reads a sector of its neighbor again.
      if (width == 16) {
        EXPECT_EQ(written.writtenSectors * 32, uint64_t(bytes));
        EXPECT_EQ(read.readSectors * 32, uint64_t(bytes));
        EXPECT_EQ(written.writeRequests, uint64_t((bytes / 16 + 31) / 32));
      }
    }
}

/// Tokens beyond the capacity are neither read nor written.
TEST(AppendKernels, IgnoreTokensBeyondTheCapacity) {
  Append append{.batch = 4,
                .heads = 2,
                .sequence = 3,
                .capacity = 8,
                .size = 16,
                .lengths = {6, 8, 9, INT64_MAX}};
  ptx::Counters counters = append.run(3, 16);
  uint64_t bytes = 2 * 2 * 16 * 4; // two rows of two heads of the first sequence
  EXPECT_EQ(counters.allocations.at("cache").writtenBytes, bytes);
  EXPECT_EQ(counters.allocations.at("fresh").readBytes, bytes);
}

/// The checks must find each fault.
TEST(AppendKernels, FaultsAreFound) {
  const std::string text = tpc::rt::cuda::appendKernels();
  const std::vector<Append> all = {{.batch = 5,
                                    .heads = 3,
                                    .sequence = 7,
                                    .capacity = 40,
                                    .size = 24,
                                    .lengths = {0, 36, -1, INT64_MAX, 13}},
                                   {.batch = 2,
                                    .heads = 2,
                                    .sequence = 3,
                                    .capacity = 9,
                                    .size = 8,
                                    .padding = 4,
                                    .lengths = {INT64_MIN, 9}}};
  auto isFound = [&](const ptx::Module &module) {
    return llvm::any_of(all, [&](const Append &one) {
      auto [result, isRight] = one.run(2, module, 16);
      return !result.clean() || !isRight;
    });
  };
  EXPECT_FALSE(isFound(kernels()));
  const std::pair<std::string, std::string> faults[] = {
      {"max.s64 %length, %length, 0;", ""},
      {"@%p1 bra NEXT;", ""},
      {"@%p2 bra NEXT;", ""},
      {"setp.ge.s64 %p2", "setp.gt.s64 %p2"},
      {"%wide, %row_bytes, %fresh", "%wide, %head_bytes, %fresh"},
      {"%wide, %head_bytes, %from", "%wide, %row_bytes, %from"},
      {"%wide, %batch_bytes, %from", "%wide, %row_bytes, %from"},
      {"cvt.u64.u32 %wide, %r0", "cvt.u64.u32 %wide, %head"},
      {"div.u32 %batch, %r0, %heads", "div.u32 %batch, %r0, %sequence"},
      {"mul.wide.u32 %x, %batch, 8", "mul.wide.u32 %x, %head, 8"},
      {"st.global.v4.b32 [%to], {%v0, %v1", "st.global.v4.b32 [%to], {%v1, %v0"},
      {"add.u32 %i, %i, %step", "add.u32 %i, %i, %r1"},
      {"mul.wide.u32 %x, %piece, 16", "mul.wide.u32 %x, %piece, 8"},
  };
  for (const auto &[was, is] : faults) {
    std::string wrong = text;
    size_t at = wrong.find(was);
    ASSERT_LT(at, text.find("tpc_append_8")) << was;
    wrong.replace(at, was.size(), is);
    EXPECT_TRUE(isFound(parse(wrong))) << was << " => " << is;
  }
}

} // namespace
