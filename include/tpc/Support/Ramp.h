//===- Ramp.h - Tables of multiples of a progression ------------*- C++ -*-===//
//
// ALiBi biases are a number for each head times -63, -62, …, 0. Exporters store the products. This
// finds the factors, and accepts them only if they reproduce every product to the bit.
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

/// Finds the ramp of a table with rows of `columns` numbers. Nothing if the table is no ramp.
std::optional<Ramp> findRamp(const std::vector<float> &table, int64_t columns);

} // namespace tpc

#endif // TPC_SUPPORT_RAMP_H
