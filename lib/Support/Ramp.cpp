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
  // Derives `start` from the first two elements of a nonzero row. All rows may be 0.
  int64_t zero = 0;
  auto isZero = [&](int64_t column) {
    for (int64_t row = 0; row < rows; ++row)
      if (at(row, column) != 0)
        return false;
    return true;
  };
  while (zero < columns && !isZero(zero))
    ++zero;
  if (zero < columns) {
    ramp.start = -zero;
    for (int64_t row = 0; row < rows; ++row)
      ramp.slopes.push_back(zero + 1 < columns ? at(row, zero + 1) : -at(row, zero - 1));
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
