//===- ElementsTest.cpp - Elements of constants ---------------------------===//

#include "tpc/Dialect/Elements.h"

#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;

namespace {

TEST(Elements, BytesOfTypesAndTensors) {
  MLIRContext context;
  Builder b(&context);
  const std::pair<Type, int64_t> types[] = {
      {b.getI1Type(), 1},   {b.getI8Type(), 1},  {b.getIntegerType(8, false), 1},
      {b.getBF16Type(), 2}, {b.getF16Type(), 2}, {b.getF32Type(), 4},
      {b.getI64Type(), 8},  {b.getF64Type(), 8}};
  for (auto [type, bytes] : types) {
    EXPECT_EQ(getElementBytes(type), bytes);
    EXPECT_EQ(getElementBytes(RankedTensorType::get({3, 5}, type)), bytes);
  }
}

TEST(Elements, RoundToTheNearestTiesToEven) {
  MLIRContext context;
  Builder b(&context);
  // 1 plus one and a half units in its last place is a tie, which rounds to even.
  EXPECT_EQ(roundTo(b.getF32Type(), 1 + 0x1.8p-23), 1 + 0x1p-22);
  EXPECT_EQ(roundTo(b.getF32Type(), 1 + 0x0.8p-23), 1);
  EXPECT_EQ(roundTo(b.getF16Type(), 1 + 0x1.8p-10), 1 + 0x1p-9);
  EXPECT_EQ(roundTo(b.getBF16Type(), 1 + 0x1.8p-7), 1 + 0x1p-6);
  EXPECT_EQ(roundTo(b.getF64Type(), 0.1), 0.1);
  // Out of range.
  EXPECT_EQ(roundTo(b.getF16Type(), 65520), INFINITY);
  EXPECT_EQ(roundTo(b.getF32Type(), -1e300), -INFINITY);
  EXPECT_TRUE(std::signbit(roundTo(b.getBF16Type(), -0.0)));
  EXPECT_TRUE(std::isnan(roundTo(b.getF16Type(), NAN)));
}

TEST(Elements, IntegersHaveNoFraction) {
  MLIRContext context;
  Builder b(&context);
  EXPECT_EQ(roundTo(b.getI32Type(), -2.75), -2);
  EXPECT_EQ(roundTo(b.getI64Type(), 2.75), 2);
  EXPECT_EQ(roundTo(b.getI1Type(), 0.25), 1);
  EXPECT_EQ(roundTo(b.getI1Type(), 0), 0);
}

} // namespace
