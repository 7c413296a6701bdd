//===- Ramp.cpp - Recognition of ALiBi bias tables ------------------------===//

#include "tpc/Support/Ramp.h"

#include <algorithm>
#include <cmath>

using namespace tpc;

std::optional<Ramp> tpc::findRamp(const std::vector<float> &table, int64_t columns) {
  constexpr int64_t exact = 1 << 24; // integers up to 2^24 are exact in f32
  if (columns < 2 || columns > exact || table.empty() || int64_t(table.size()) % columns != 0)
    return std::nullopt;
  int64_t rows = int64_t(table.size()) / columns;
  auto at = [&](int64_t row, int64_t column) { return table[row * columns + column]; };
  Ramp ramp;
  // If a column is 0 in all rows, `start` + column is 0 there. Otherwise the first two elements of
  // the first row determine `start`.
  int64_t zeroColumn = 0;
  auto isZero = [&](int64_t column) {
    for (int64_t row = 0; row < rows; ++row)
      if (at(row, column) != 0)
        return false;
    return true;
  };
  while (zeroColumn < columns && !isZero(zeroColumn))
    ++zeroColumn;
  if (zeroColumn < columns) {
    ramp.start = -zeroColumn;
    for (int64_t row = 0; row < rows; ++row)
      ramp.slopes.push_back(zeroColumn + 1 < columns ? at(row, zeroColumn + 1)
                                                     : -at(row, zeroColumn - 1));
  } else {
    double start = std::round(double(at(0, 0)) / (double(at(0, 1)) - double(at(0, 0))));
    if (!(std::abs(start) < double(exact)) || start == 0)
      return std::nullopt;
    ramp.start = int64_t(start);
    for (int64_t row = 0; row < rows; ++row)
      ramp.slopes.push_back(at(row, 0) / float(start));
  }
  if (ramp.start + columns > exact ||
      std::all_of(ramp.slopes.begin(), ramp.slopes.end(), [](float slope) { return slope == 0; }))
    return std::nullopt;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (!std::isfinite(ramp.slopes[row]) ||
          at(row, column) != ramp.slopes[row] * float(ramp.start + column))
        return std::nullopt;
  return ramp;
}
