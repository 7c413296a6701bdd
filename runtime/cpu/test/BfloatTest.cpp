//===- BfloatTest.cpp - Rounding to bf16 ----------------------------------===//

#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>

#ifdef __x86_64__

extern "C" __bf16 __truncsfbf2(float);
extern "C" __bf16 __truncdfbf2(double);

static uint16_t bitsOf(__bf16 y) {
  uint16_t result;
  std::memcpy(&result, &y, sizeof result);
  return result;
}

static uint16_t rounded(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return bitsOf(__truncsfbf2(x));
}

// Cases in which bits that an intermediate float would lose decide a tie.
TEST(Bfloat, RoundsDoublesOnce) {
  for (double sign : {1.0, -1.0}) {
    auto of = [&](double x) { return bitsOf(__truncdfbf2(sign * x)) & 0x7fff; };
    EXPECT_EQ(of(1.00390625), 0x3f80); // a tie
    EXPECT_EQ(of(1.00390625 + 0x1p-40), 0x3f81);
    EXPECT_EQ(of(1.01171875 - 0x1p-40), 0x3f81);
    EXPECT_EQ(of(1.01171875), 0x3f82); // a tie
    EXPECT_EQ(of(1e39), 0x7f80);
    EXPECT_EQ(of(0x1p-133), 1);
    EXPECT_EQ(of(0x1p-134 + 0x1p-180), 1);
    EXPECT_EQ(of(0x1p-134), 0);
    EXPECT_EQ(of(0), 0);
    EXPECT_EQ(of(__builtin_inf()), 0x7f80);
  }
  EXPECT_EQ(bitsOf(__truncdfbf2(__builtin_nan(""))) & 0x7fff, 0x7fc0);
  EXPECT_EQ(bitsOf(__truncdfbf2(-0.0)), 0x8000);
}

TEST(Bfloat, NearestTiesToEven) {
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);
  EXPECT_EQ(rounded(0x3f808000), 0x3f80); // a tie
  EXPECT_EQ(rounded(0x3f818000), 0x3f82); // a tie
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0xbf807fff), 0xbf80);
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80); // above the maximum
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x7f800001), 0x7fc0); // NaN
}

#endif
