//===- Ramp.h - Recognition of ALiBi bias tables ----------------*- C++ -*-===//
//
// ALiBi biases are a slope for each head times consecutive integers, such as -63, …, 0. Some
// exporters store a table of these products. findRamp recovers the slopes, and accepts them only if
// they reproduce the table bit-exactly. A table may be rounded to 16 bits.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_RAMP_H
#define TPC_SUPPORT_RAMP_H

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tpc {

/// A table with the elements [r, c] = slopes[r] * (start + c), rounded to f32, and then to the type
/// of the table.
struct Ramp {
  int64_t start = 0;
  std::vector<float> slopes;
};

/// Type that the numbers of a table are rounded to.
struct TableType {
  int precision = 24; ///< bits of the significand
  std::function<float(float)> round = [](float number) { return number; };
};

/// Returns the ramp of a table with rows of `columns` numbers; nothing if the table is not a ramp.
std::optional<Ramp> findRamp(const std::vector<float> &table, int64_t columns,
                             const TableType &type = {});

} // namespace tpc

#endif // TPC_SUPPORT_RAMP_H
