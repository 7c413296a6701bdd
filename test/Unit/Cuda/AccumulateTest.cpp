//===- AccumulateTest.cpp - Runtime kernel that adds gradients ------------===//
//
// Tests which memory the kernel accesses, and what it writes. The device suite also tests sums over
// several micro-batches (runtime/conformance/AccumulateTest.cpp).
//
//===----------------------------------------------------------------------===//

#include "cuda/library/AccumulateKernels.h"

#include "tpc/Conversion/Cuda/Cuda.h"

#include "Ptx/Ptx.h"

#include <gtest/gtest.h>

using namespace mlir::tpc;
using tpc::rt::cuda::AccumulateLaunch;

namespace {

const ptx::Module &kernels() {
  static const ptx::Module module = [] {
    std::string error;
    auto parsed = ptx::parse(tpc::rt::cuda::accumulateKernels(), error);
    EXPECT_TRUE(parsed) << error;
    return parsed.value_or(ptx::Module());
  }();
  return module;
}

/// Adds `count` elements, after which both arrays have `more` elements that must not change.
void add(int64_t count, unsigned blocks, int64_t more = 5) {
  SCOPED_TRACE(std::to_string(count) + " elements, " + std::to_string(blocks) + " blocks");
  const auto all = size_t(count + more);
  std::vector<float> sum(all), from(all), expected;
  for (size_t i = 0; i < all; ++i) {
    sum[i] = 0.1f * float(i % 1000);
    from[i] = 1.0f / float(i + 3);
  }
  expected = sum;
  for (size_t i = 0; i < size_t(count); ++i)
    expected[i] = sum[i] + from[i];
  ptx::Memory memory(1);
  uint64_t to = memory.allocate(all * sizeof(float), "sum");
  uint64_t in = memory.allocate(all * sizeof(float), "from");
  ASSERT_TRUE(memory.copyIn(to, sum.data(), all * sizeof(float)));
  ASSERT_TRUE(memory.copyIn(in, from.data(), all * sizeof(float)));
  memory.setReadOnly(in);
  AccumulateLaunch launch(reinterpret_cast<float *>(to), reinterpret_cast<float *>(in), count);
  std::vector<ptx::Argument> arguments;
  launch.forEachParameter([&](auto value) { arguments.push_back(ptx::Argument::of(value)); });
  ptx::Result result =
      ptx::launch(kernels(), tpc::rt::cuda::accumulateKernelNames[0], arguments, memory,
                  {.grid = {blocks}, .block = {AccumulateLaunch::threads}, .seed = blocks});
  EXPECT_TRUE(result.clean()) << result.str();
  std::vector<float> found(all);
  ASSERT_TRUE(memory.copyOut(found.data(), to, all * sizeof(float)));
  EXPECT_EQ(found, expected);
}

TEST(AccumulateKernels, TargetTheOldestArchitecture) {
  std::string text = tpc::rt::cuda::accumulateKernels();
  EXPECT_EQ(llvm::toString(cuda::checkRounding(text)), "");
  EXPECT_NE(text.find(".target sm_80\n"), std::string::npos);
}

/// Also with fewer threads than elements, and with threads that have none.
TEST(AccumulateKernels, AddEachElementOnce) {
  for (int64_t count : {1, 31, 255, 256, 257, 1000})
    for (unsigned blocks : {1u, 2u, 5u})
      add(count, blocks);
}

TEST(AccumulateKernels, HaveABlockForEachThreadsElements) {
  auto blocks = [](int64_t count, int multiprocessors) {
    return AccumulateLaunch(nullptr, nullptr, count).blocks(multiprocessors);
  };
  EXPECT_EQ(blocks(1, 132), 1);
  EXPECT_EQ(blocks(256, 132), 1);
  EXPECT_EQ(blocks(257, 132), 2);
  EXPECT_EQ(blocks(int64_t(1) << 33, 132), 32 * 132);
  EXPECT_EQ(blocks(int64_t(1) << 33, 0), 32);
}

} // namespace
