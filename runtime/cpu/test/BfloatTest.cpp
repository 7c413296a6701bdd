//===- BfloatTest.cpp - rounding to bf16 ----------------------------------===//

#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>

#ifdef __x86_64__

extern "C" __bf16 __truncsfbf2(float);

static uint16_t rounded(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  __bf16 y = __truncsfbf2(x);
  uint16_t result;
  std::memcpy(&result, &y, sizeof result);
  return result;
}

TEST(Bfloat, NearestTiesToEven) {
  EXPECT_EQ(rounded(0x3f800000), 0x3f80);
  EXPECT_EQ(rounded(0x3f808000), 0x3f80); // a tie
  EXPECT_EQ(rounded(0x3f818000), 0x3f82); // a tie
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0xbf807fff), 0xbf80);
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80); // larger than any
  EXPECT_EQ(rounded(0xff800000), 0xff80);
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x7f800001), 0x7fc0); // no number
}

#endif
