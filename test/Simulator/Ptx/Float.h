//===- Float.h - PTX float arithmetic -------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_FLOAT_H
#define TPC_TEST_SIMULATOR_PTX_FLOAT_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace ptx {

enum class Rounding : uint8_t {
  Nearest,
  Zero,
  Down,
  Up,
  Away,
  IntNearest,
  IntZero,
  IntDown,
  IntUp
};

// ---- types: values, and their bits in registers ----

inline float toFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t toBits(float value) { return std::bit_cast<uint32_t>(value); }

constexpr uint32_t canonicalNan = 0x7fffffff;
constexpr uint16_t canonicalNan16 = 0x7fff; // for f16 and bf16

/// Flushes subnormal numbers to zeros of their sign.
template <bool Ftz> inline float flush(float value) {
  if constexpr (Ftz) {
    uint32_t bits = toBits(value);
    return toFloat((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
  }
  return value;
}

/// Replaces any NaN by the canonical one, as f32 arithmetic does.
inline float canonical(float value) { return value != value ? toFloat(canonicalNan) : value; }

/// Applies .sat: clamps to [0, 1]; NaN becomes +0.
template <bool Sat> inline float saturate(float value) {
  if constexpr (Sat)
    return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
  return value;
}

template <bool Ftz, bool Sat = false> inline float finish(float value) {
  return saturate<Sat>(flush<Ftz>(canonical(value)));
}

struct F16 {
  static float widen(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }
  static uint16_t narrow(float value) {
    return value != value ? canonicalNan16 : std::bit_cast<uint16_t>(_Float16(value));
  }
};

struct BF16 {
  static float widen(uint16_t bits) { return toFloat(uint32_t(bits) << 16); }
  static uint16_t narrow(float value) {
    if (value != value)
      return canonicalNan16;
    uint32_t bits = toBits(value);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

// ---- rounding of exact values, in any direction ----

struct Format {
  int mantissaBits; // without the implicit one
  int minExponent;  // minimum exponent of normal numbers
  int maxExponent;
};
constexpr Format f16Format{10, -14, 15}, bf16Format{7, -126, 127}, f32Format{23, -126, 127},
    f64Format{52, -1022, 1023};

/// Rounds to an integer in this direction.
long double roundToInteger(long double value, Rounding rounding);
/// Rounds to a number of `format`, with overflow as in IEEE 754. NaN stays NaN.
long double roundTo(long double value, Format format, Rounding rounding);
/// Returns x + y in double, rounded to odd. So a second rounding, to a format with at least two
/// bits less, is correct.
double addToOdd(double x, double y);
float roundToFloat(long double value, Rounding rounding);

float addRounded(float a, float b, Rounding rounding);
float mulRounded(float a, float b, Rounding rounding);
float fmaRounded(float a, float b, float c, Rounding rounding);
float divRounded(float a, float b, Rounding rounding);
float sqrtRounded(float a, Rounding rounding);

} // namespace ptx

#endif
