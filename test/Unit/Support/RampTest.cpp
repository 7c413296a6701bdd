//===- RampTest.cpp - Tables of multiples of a progression ----------------===//

#include "tpc/Support/Ramp.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace tpc;

namespace {

std::vector<float> makeTable(const std::vector<float> &slopes, int64_t start, int64_t columns) {
  std::vector<float> table;
  for (float slope : slopes)
    for (int64_t c = 0; c < columns; ++c)
      table.push_back(slope * float(start + c));
  return table;
}

// ALiBi slopes for 12 heads. Half of them are not powers of two, so that products are rounded.
std::vector<float> makeSlopes() {
  std::vector<float> slopes;
  for (int i = 1; i <= 8; ++i)
    slopes.push_back(std::exp2(float(-i)));
  for (int i = 1; i <= 8; i += 2)
    slopes.push_back(std::exp2(float(-i) / 2));
  return slopes;
}

TEST(Ramp, MayBeginAnywhere) {
  std::vector<float> slopes = makeSlopes();
  // Ranges that begin at 0, end at 0, contain 0, or are on one side of it.
  for (int64_t start : {0, -63, -20, 1, 5, -100}) {
    std::optional<Ramp> ramp = findRamp(makeTable(slopes, start, 64), 64);
    ASSERT_TRUE(ramp) << start;
    EXPECT_EQ(ramp->start, start);
    for (size_t r = 0; r < slopes.size(); ++r)
      for (int64_t c = 0; c < 64; ++c)
        EXPECT_EQ(ramp->slopes[r] * float(start + c), slopes[r] * float(start + c));
  }
}

TEST(Ramp, OneChangedBitIsFound) {
  std::vector<float> table = makeTable(makeSlopes(), -63, 64);
  for (size_t i : {size_t(0), size_t(62), size_t(500), table.size() - 2}) {
    std::vector<float> other = table;
    other[i] = std::nextafter(other[i], 1.0f);
    // Some of these are next to the 0 of a row, where findRamp reads the row's slope.
    EXPECT_FALSE(findRamp(other, 64)) << i;
  }
}

// Rounds to the precision of bf16, whose exponents are those of f32.
float roundToBf16(float number) {
  int exponent = number == 0 ? 0 : std::ilogb(number) - 7;
  return float(std::ldexp(std::nearbyint(std::ldexp(double(number), -exponent)), exponent));
}

TEST(Ramp, MayBeRounded) {
  std::vector<float> exact = makeTable(makeSlopes(), -63, 64), table;
  std::transform(exact.begin(), exact.end(), std::back_inserter(table), roundToBf16);
  EXPECT_FALSE(findRamp(table, 64));
  std::optional<Ramp> ramp = findRamp(table, 64, {8, roundToBf16});
  ASSERT_TRUE(ramp);
  EXPECT_EQ(ramp->start, -63);
  for (size_t i = 0; i < table.size(); ++i)
    EXPECT_EQ(roundToBf16(ramp->slopes[i / 64] * float(int64_t(i % 64) - 63)), table[i]);
  table[5] = roundToBf16(table[5] * 1.01f);
  EXPECT_FALSE(findRamp(table, 64, {8, roundToBf16}));
}

TEST(Ramp, OtherTablesAreRejected) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(findRamp({}, 4));
  EXPECT_FALSE(findRamp({1, 2, 3}, 1));
  EXPECT_FALSE(findRamp({0, 0, 0, 0}, 2));       // no slopes at all
  EXPECT_FALSE(findRamp({1, 1, 1, 1}, 4));       // a constant
  EXPECT_FALSE(findRamp({0, 1, 4, 9}, 4));       // squares
  EXPECT_FALSE(findRamp({0, 1, 2, 0, 1, 3}, 3)); // one of two rows
  EXPECT_FALSE(findRamp({0, inf, inf}, 3));
  EXPECT_FALSE(findRamp({0, std::nanf(""), 0}, 3));
  EXPECT_FALSE(findRamp({0, 1, 2, 3, 4}, 2)); // no rows of two
}

} // namespace
