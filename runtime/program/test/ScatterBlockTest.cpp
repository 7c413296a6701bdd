//===- ScatterBlockTest.cpp - Tests of copies of blocks into tensors ------===//

#include "program/ScatterBlock.h"
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace tpc::rt;

namespace {

int64_t product(const std::vector<int64_t> &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

TEST(ScatterBlock, CopiesEachElementOnceOnAnyNumberOfThreads) {
  std::mt19937 random(1);
  auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random()) % (to - from + 1);
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<int64_t> global, offset, size;
    for (int64_t d = draw(0, 4); d > 0; --d) {
      global.push_back(draw(1, 6));
      size.push_back(random() % 2 ? global.back() : draw(1, global.back()));
      offset.push_back(draw(0, global.back() - size.back()));
    }
    auto rank = static_cast<int32_t>(global.size());
    std::vector<int32_t> block(static_cast<size_t>(product(size)));
    std::iota(block.begin(), block.end(), 1);
    std::vector<int32_t> expected(static_cast<size_t>(product(global))), made(expected);
    for (int64_t i = 0; i < std::ssize(block); ++i) {
      int64_t at = 0, stride = 1, rest = i;
      for (size_t d = global.size(); d-- > 0; rest /= size[d], stride *= global[d])
        at += (offset[d] + rest % size[d]) * stride;
      expected[static_cast<size_t>(at)] = block[static_cast<size_t>(i)];
    }
    scatterBlock(reinterpret_cast<std::byte *>(made.data()),
                 reinterpret_cast<const std::byte *>(block.data()), rank, global.data(),
                 offset.data(), size.data(), sizeof(int32_t),
                 {static_cast<int>(draw(1, 5)), draw(1, 40)});
    ASSERT_EQ(made, expected) << round;
  }
}

TEST(ScatterBlock, AcceptsABlockInPlace) {
  std::vector<int32_t> tensor(24);
  std::iota(tensor.begin(), tensor.end(), 0);
  std::vector<int32_t> before = tensor;
  int64_t global[] = {4, 6}, offset[] = {2, 0}, size[] = {2, 6};
  auto *to = reinterpret_cast<std::byte *>(tensor.data());
  scatterBlock(to, to + 12 * sizeof(int32_t), 2, global, offset, size, sizeof(int32_t), {3, 1});
  EXPECT_EQ(tensor, before);
}

} // namespace
