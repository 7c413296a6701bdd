//===- MathTest.cpp - Remainders of floats on GPUs ------------------------===//

#include "KernelRun.h"

#include <bit>
#include <cmath>

using namespace mlir::tpc::cuda;

static std::vector<float> runBinary(const std::string &op, const std::vector<float> &x,
                                    const std::vector<float> &y) {
  Compiled compiled = compile(R"(
tpc_kernel.func @k(%x: memref<?xf32> of [n], %y: memref<?xf32> of [n]) -> (%z: memref<?xf32> of [n]) {
  tpc_kernel.rows () in [] {
    tpc_kernel.elements (%j) in [n] {
      %a = memref.load %x[%j] : memref<?xf32>
      %b = memref.load %y[%j] : memref<?xf32>
      %c = )" + op + R"( %a, %b : f32
      memref.store %c, %z[%j] : memref<?xf32>
    }
  }
})");
  KernelRun run({int64_t(x.size())});
  run.input("x", x);
  run.input("y", y);
  run.result<float>("z", x.size());
  run.launch(compiled, "k", 4);
  return run.get<float>("z", x.size());
}

/// Numbers of all magnitudes, and NaN.
static std::vector<float> all(size_t count, uint64_t seed) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.f,
                            -0.f,
                            1.f,
                            -1.f,
                            0.5f,
                            3.f,
                            -7.5f,
                            inf,
                            -inf,
                            NAN,
                            0x1p-149f,
                            0x1p127f,
                            -0x1.fffffep127f,
                            0x1p-126f};
  uint64_t state = seed * 2 + 1;
  while (values.size() < count) {
    state = state * 6364136223846793005 + 1442695040888963407;
    values.push_back(std::bit_cast<float>(uint32_t(state >> 32)));
  }
  return values;
}

TEST(Math, RemaindersAreExact) {
  std::vector<float> first = all(22, 1), second = all(26, 2), x, y;
  for (float a : first)
    for (float b : second) {
      x.push_back(a);
      y.push_back(b);
    }
  std::vector<float> z = runBinary("arith.remf", x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    float expected = std::fmod(x[i], y[i]);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(z[i])) << x[i] << " " << y[i];
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(z[i]), std::bit_cast<uint32_t>(expected))
          << x[i] << " mod " << y[i] << " is " << expected << ", not " << z[i];
  }
}
