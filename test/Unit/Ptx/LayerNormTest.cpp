//===- LayerNormTest.cpp - Layer norm kernel as tpcc emits it -------------===//

#include "Kernels.h"
#include "PtxTesting.h"

#include <cmath>

using namespace ptx;

namespace {

struct LayerNorm {
  LayerNorm(uint64_t seed, uint32_t rows, uint32_t columns)
      : memory(seed), rows(rows), columns(columns), x(rows * columns) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float(std::sin(double(i + seed) * 0.7) * 3 + double(i % 5));
    for (uint32_t i = 0; i < columns; ++i) {
      gamma.push_back(1 + float(i % 7) / 8);
      beta.push_back(float(i % 3) - 1);
    }
    in = upload(memory, x, "x");
    scale = upload(memory, gamma, "gamma");
    shift = upload(memory, beta, "beta");
    out = memory.allocate(x.size() * 4, "y");
  }
  Result run(const Module &module, uint32_t threads, uint64_t seed) {
    std::array arguments{Argument::pointer(in), Argument::pointer(scale), Argument::pointer(shift),
                         Argument::pointer(out), Argument::of(columns)};
    return launch(module, "layer_norm", arguments, memory,
                  {.grid = {rows}, .block = {threads}, .seed = seed});
  }
  double error() const {
    auto y = download<float>(memory, out, x.size());
    double largest = 0;
    for (uint32_t row = 0; row < rows; ++row) {
      double sum = 0, square = 0;
      for (uint32_t i = 0; i < columns; ++i)
        sum += x[row * columns + i];
      double mean = sum / columns;
      for (uint32_t i = 0; i < columns; ++i)
        square += (x[row * columns + i] - mean) * (x[row * columns + i] - mean);
      double scaled = 1 / std::sqrt(square / columns + 1e-5);
      for (uint32_t i = 0; i < columns; ++i)
        largest = std::max(largest, std::fabs((x[row * columns + i] - mean) * scaled * gamma[i] +
                                              beta[i] - y[row * columns + i]));
    }
    return largest;
  }

  Memory memory;
  uint32_t rows, columns;
  std::vector<float> x, gamma, beta;
  uint64_t in, scale, shift, out;
};

} // namespace

TEST(LayerNorm, IsCorrectInEveryOrder) {
  Module module = parsed(layerNormText);
  for (uint64_t seed = 0; seed < 25; ++seed)
    for (auto [columns, threads] :
         {std::pair(768u, 192u), std::pair(100u, 64u), std::pair(4u, 32u), std::pair(1000u, 96u)}) {
      LayerNorm norm(seed, 3, columns);
      Result result = norm.run(module, threads, seed);
      ASSERT_TRUE(result.clean()) << result.str();
      EXPECT_LT(norm.error(), 1e-5);
      EXPECT_EQ(result.counters.barriers, 3u);
    }
}

// x is read twice and y is written once, without bank conflicts. A row has 96 sectors of 32 bytes.
TEST(LayerNorm, AccessesOfGpt2) {
  Module module = parsed(layerNormText);
  LayerNorm norm(1, 128, 768);
  Result result = norm.run(module, 192, 1);
  ASSERT_TRUE(result.clean()) << result.str();
  EXPECT_LT(norm.error(), 1e-5);
  const Counters &counters = result.counters;
  EXPECT_EQ(counters.allocations.at("x").readSectors, 2u * 128 * 96);
  EXPECT_EQ(counters.allocations.at("x").distinctReadBytes, 128u * 768 * 4);
  EXPECT_EQ(counters.allocations.at("y").writtenSectors, 128u * 96);
  EXPECT_EQ(counters.sharedConflicts, 0u);
}
