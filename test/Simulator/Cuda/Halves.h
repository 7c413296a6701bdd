//===- Halves.h - Conversions of f16 and bf16 -----------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_HALVES_H
#define TPC_TEST_SIMULATOR_CUDA_HALVES_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace sim {

inline float fromF16(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }
inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Rounds to nearest even. NaN stays NaN.
inline uint16_t toF16(float value) { return std::bit_cast<uint16_t>(_Float16(value)); }
inline uint16_t toBf16(float value) {
  auto wide = std::bit_cast<uint32_t>(value);
  return std::isnan(value) ? uint16_t(wide >> 16 | 64)
                           : uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

} // namespace sim

#endif
