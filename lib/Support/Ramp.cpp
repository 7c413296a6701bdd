//===- Ramp.cpp - Recognition of ALiBi bias tables ------------------------===//

#include "tpc/Support/Ramp.h"

#include <algorithm>
#include <cmath>

using namespace tpc;

/// Returns the midpoint of the interval of slopes for which slope * (start + i) may be rounded to
/// row[i] for every i.
static float findMiddleSlope(const float *row, int64_t start, int64_t columns, int precision) {
  double low = -HUGE_VAL, high = HUGE_VAL;
  for (int64_t i = 0; i < columns; ++i) {
    double position = double(start + i), number = row[i];
    if (position == 0 || number == 0)
      continue;
    double half = std::ldexp(1, std::ilogb(number) - precision); // half an ulp
    double a = (number - half) / position, b = (number + half) / position;
    low = std::max(low, std::min(a, b));
    high = std::min(high, std::max(a, b));
  }
  return float((low + high) / 2);
}

std::optional<Ramp> tpc::findRamp(const std::vector<float> &table, int64_t columns,
                                  const TableType &type) {
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
  auto isRow = [&](int64_t row) {
    for (int64_t column = 0; column < columns; ++column)
      if (at(row, column) != type.round(ramp.slopes[row] * float(ramp.start + column)))
        return false;
    return std::isfinite(ramp.slopes[row]);
  };
  for (int64_t row = 0; row < rows; ++row) {
    if (isRow(row))
      continue;
    // The slope so far is that of one element, which is rounded. All elements determine it better.
    ramp.slopes[row] = findMiddleSlope(&table[row * columns], ramp.start, columns, type.precision);
    if (type.precision == 24 || !isRow(row))
      return std::nullopt;
  }
  return ramp;
}
