//===- Bfloat.cpp - Rounding to bf16 --------------------------------------===//
//
// Compilers call these functions on CPUs without an instruction for the conversion. libgcc has them
// only since version 13.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstring>

#ifdef __x86_64__

/// Rounds to nearest, ties to even; NaN stays NaN.
extern "C" __attribute__((weak)) __bf16 __truncsfbf2(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  uint32_t rounded =
      (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
  auto high = static_cast<uint16_t>(rounded >> 16);
  __bf16 result;
  std::memcpy(&result, &high, sizeof result);
  return result;
}

/// Converts through a float whose lowest bit records whether lower bits were lost, so that the
/// value is rounded only once.
extern "C" __attribute__((weak)) __bf16 __truncdfbf2(double x) {
  auto single = static_cast<float>(x);
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof bits);
  double back = single;
  if (back != x && x == x) {
    bool isLarger = (back < 0 ? -back : back) > (x < 0 ? -x : x);
    bits = (bits - isLarger) | 1;
  }
  std::memcpy(&single, &bits, sizeof bits);
  return __truncsfbf2(single);
}

#endif
