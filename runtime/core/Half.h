//===- Half.h - 16-bit floats ---------------------------------------------===//
//
// Implemented with integers, so that all processors and compilers give equal bits. Conversion from
// f32 rounds to nearest even. Overflow becomes infinity; NaN stays NaN.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_HALF_H
#define TPC_RT_CORE_HALF_H

#include <bit>
#include <cstdint>

namespace tpc::rt {

inline float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  // The exponent of a normal number is 112 less than in f32; 2^112 scales subnormal numbers as
  // well.
  float value = rest >= 0x7c00 ? std::bit_cast<float>(0x7f800000 | rest << 13)
                               : std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

inline uint16_t floatToHalf(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x), rest = bits & 0x7fffffff;
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (rest > 0x7f800000)
    return sign | 0x7e00;
  if (rest >= 0x477ff000) // midpoint between the largest half and the next
    return sign | 0x7c00;
  if (rest < 0x38800000) { // subnormal: adding 1/2 moves the multiple of 2^-24 into the low bits
    float shifted = std::bit_cast<float>(rest) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

inline float bfloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t floatToBfloat(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_HALF_H
