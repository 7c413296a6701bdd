//===- RandomTest.cpp - Tests of random numbers, logarithm and noise ------===//

#include "generate/Random.h"
#include "generate/Score.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace tpc::rt;

namespace {

/// Known-answer vectors of the paper's code (Random123, kat_vectors).
TEST(Random, PhiloxIsThatOfThePaper) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, DrawsDependOnEachInput) {
  Draw draw{7, 1, 20};
  uint32_t bits = draw.of(5);
  EXPECT_EQ(bits, draw.ofQuad(1)[1]);
  for (Draw other : {Draw{8, 1, 20}, Draw{7 | uint64_t(1) << 40, 1, 20}, Draw{7, 2, 20},
                     Draw{7, 1 | uint64_t(1) << 40, 20}, Draw{7, 1, 21}})
    EXPECT_NE(other.of(5), bits);
  EXPECT_NE(draw.of(9), bits);
}

TEST(Random, LogarithmsAndExponentialsAreAccurate) {
  for (double x = 1e-10; x < 1e10; x *= 1.37) {
    EXPECT_NEAR(logOf(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x))));
    EXPECT_NEAR(logOf(1 + 1e-9 * x), std::log(1 + 1e-9 * x),
                2e-16 + 2e-15 * std::log(1 + 1e-9 * x));
  }
  EXPECT_EQ(logOf(1), 0);
  for (double x = 0; x > -60; x -= 0.0371)
    EXPECT_NEAR(expOf(x) / std::exp(x), 1, 2e-15) << x;
  EXPECT_EQ(expOf(0), 1);
  EXPECT_EQ(expOf(-60.1), 0);
  EXPECT_EQ(expOf(-std::numeric_limits<double>::infinity()), 0);
}

TEST(Random, NoiseIsGumbels) {
  double sum = 0, squares = 0;
  constexpr int count = 200000;
  for (int i = 0; i < count; ++i) {
    uint32_t bits = Draw{3, 0, i / 1000}.of(i % 1000);
    double noise = gumbelOf(bits);
    EXPECT_LE(noise, gumbelBound(bits));
    sum += noise;
    squares += noise * noise;
  }
  double mean = sum / count, variance = squares / count - mean * mean;
  EXPECT_NEAR(mean, 0.5772156649, 0.01); // the mean has a standard deviation of 0.003
  EXPECT_NEAR(variance, M_PI * M_PI / 6, 0.03);
}

TEST(Random, NoiseIsBoundedAtTheEnds) {
  for (uint32_t bits : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xfffffffeu, 0xffffffffu}) {
    EXPECT_TRUE(std::isfinite(gumbelOf(bits)));
    EXPECT_LE(gumbelOf(bits), gumbelBound(bits));
  }
  EXPECT_GT(gumbelOf(0xffffffff), 22);
  EXPECT_LT(gumbelOf(0), -3);
}

TEST(Score, OrderIsByValueThenByToken) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  float ascending[] = {-inf, -3e38f, -1, -1e-45f, 0, 1e-45f, 2, 3e38f, inf, NAN};
  for (size_t i = 0; i + 1 < std::size(ascending); ++i) {
    EXPECT_LT(rank(ascending[i], 0), rank(ascending[i + 1], 1000)) << ascending[i];
    EXPECT_GT(rank(ascending[i], 3), rank(ascending[i], 4));
    EXPECT_GT(rank(ascending[i], 4), noToken);
    EXPECT_EQ(scoreOf(rank(ascending[i], 17)), ascending[i]);
    EXPECT_EQ(tokenOf(rank(ascending[i], 17)), 17);
    EXPECT_FALSE(isNaN(rank(ascending[i], 0)));
  }
  EXPECT_EQ(rank(-0.0f, 1), rank(0.0f, 1));
  EXPECT_TRUE(isNaN(rank(NAN, 1)));
  EXPECT_TRUE(isNaN(rank(-NAN, 1)));
}

TEST(Score, WeightsAreThoseOfSoftmax) {
  EXPECT_EQ(weightBelow(0), int64_t(1) << 40);
  EXPECT_NEAR(static_cast<double>(weightBelow(3.25)), std::exp(-3.25) * 0x1p40, 1);
  EXPECT_EQ(weightBelow(29), 0);
  EXPECT_EQ(weightBelow(std::numeric_limits<double>::infinity()), 0);
  constexpr float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(below(inf, inf), 0);
  EXPECT_EQ(below(-inf, -inf), 0);
  EXPECT_EQ(binOf(below(1, inf)), numTopPBins - 1);
  EXPECT_LT(std::log2(double(maxTokens)) + 40, 63);
}

} // namespace
