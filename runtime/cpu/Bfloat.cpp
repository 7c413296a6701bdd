//===- Bfloat.cpp - What compilers call to round to bf16 ------------------===//
//
// Processors without the instruction round in a function that libgcc has from version 13 on only.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstring>

#ifdef __x86_64__

/// To nearest, ties to even; what is no number stays none.
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

#endif
