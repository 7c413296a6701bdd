//===- Ramp.h - Tables of multiples of a progression -------------*- C++ -*-===//
//
// Biases by distance (ALiBi) are a number for each head times -63, -62, …, 0. Exporters store the
// products; which numbers they are products of is found here, and only if all of them come out to
// the bit.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_RAMP_H
#define TPC_SUPPORT_RAMP_H

#include <cstdint>
#include <optional>
#include <vector>

namespace tpc {

/// Element [r, c] of a table is slopes[r] * (start + c), rounded once.
struct Ramp {
  int64_t start = 0;
  std::vector<float> slopes;
};

/// Of a table of rows of `columns` numbers. Nothing if it is another.
std::optional<Ramp> findRamp(const std::vector<float> &table, int64_t columns);

} // namespace tpc

#endif // TPC_SUPPORT_RAMP_H
