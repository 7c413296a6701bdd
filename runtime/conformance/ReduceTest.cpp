//===- ReduceTest.cpp - Tests of reduction arithmetic ---------------------===//

#include "core/Reduce.h"
#include "core/Half.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace tpc::rt;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

uint16_t narrow(tpc_dtype dtype, float x) {
  return dtype == TPC_F16 ? floatToHalf(x) : floatToBfloat(x);
}

/// Reduces one element of each of two members.
double reduceTwo(tpc_dtype dtype, tpc_reduction reduction, float a, float b) {
  if (dtype == TPC_F16 || dtype == TPC_BF16) {
    uint16_t x = narrow(dtype, a), y = narrow(dtype, b), out = 0;
    const void *in[] = {&x, &y};
    reduce(dtype, reduction, &out, in, 2, 1);
    return dtype == TPC_F16 ? halfToFloat(out) : bfloatToFloat(out);
  }
  double wide[] = {a, b}, wideOut = 0;
  float single[] = {a, b}, singleOut = 0;
  bool isWide = dtype == TPC_F64;
  const void *in[] = {isWide ? (void *)wide : single, isWide ? (void *)(wide + 1) : single + 1};
  reduce(dtype, reduction, isWide ? (void *)&wideOut : &singleOut, in, 2, 1);
  return isWide ? wideOut : singleOut;
}

} // namespace

TEST(Reduce, OrdersNumbersAsIeeesMaximumDoes) {
  // In ascending order.
  const std::vector<float> numbers = {-kInf, -2, -0.f, 0, 2, kInf};
  for (tpc_dtype dtype : {TPC_F32, TPC_F64, TPC_F16, TPC_BF16})
    for (size_t i = 0; i < numbers.size(); ++i)
      for (size_t j = 0; j < numbers.size(); ++j) {
        double maximum = reduceTwo(dtype, TPC_MAX, numbers[i], numbers[j]);
        double minimum = reduceTwo(dtype, TPC_MIN, numbers[i], numbers[j]);
        float larger = numbers[std::max(i, j)], smaller = numbers[std::min(i, j)];
        EXPECT_EQ(maximum, larger) << dtype;
        EXPECT_EQ(std::signbit(maximum), std::signbit(larger)) << dtype << " " << i << " " << j;
        EXPECT_EQ(minimum, smaller) << dtype;
        EXPECT_EQ(std::signbit(minimum), std::signbit(smaller)) << dtype << " " << i << " " << j;
      }
}

TEST(Reduce, KeepsNaN) {
  for (tpc_dtype dtype : {TPC_F32, TPC_F64, TPC_F16, TPC_BF16})
    for (tpc_reduction reduction : {TPC_SUM, TPC_MAX, TPC_MIN})
      for (float other : {-kInf, 0.f, kInf, kNan}) {
        EXPECT_TRUE(std::isnan(reduceTwo(dtype, reduction, kNan, other)));
        EXPECT_TRUE(std::isnan(reduceTwo(dtype, reduction, other, kNan)));
      }
}
