//===- Random.cpp - Counter-based random numbers, logarithm, exponential --===//

#include "generate/Random.h"
#include "core/ExpFactors.h"

namespace tpc::rt {

double logOf(double x) {
  // x = 2^n m, 1/sqrt(2) <= m < sqrt(2), and log m = 2 artanh f.
  auto bits = std::bit_cast<uint64_t>(x);
  auto n = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++n;
  }
  double f = (m - 1) / (m + 1), square = f * f, sum = 0;
  for (int k = 21; k >= 1; k -= 2)
    sum = sum * square + 1.0 / k;
  return 2 * f * sum + static_cast<double>(n) * 0.69314718055994531;
}

double expOf(double x) {
  // x = n log 2 + r, with log 2 split into two terms, the first with few bits. Adding 1.5 * 2^52
  // moves n into the low bits.
  constexpr double shift = 0x1.8p52;
  double shifted = x * 1.4426950408889634 + shift, n = shifted - shift;
  double r = (x - n * 0.693145751953125) - n * 1.4286068203094172e-06;
  double sum = 0;
  for (double factor : expFactors)
    sum = sum * r + factor;
  double power = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
  return x >= -60 ? sum * power : 0;
}

double gumbelOf(uint32_t bits) {
  double u = (static_cast<double>(bits) + 0.5) * 0x1p-32;
  return -logOf(-logOf(u));
}

} // namespace tpc::rt
