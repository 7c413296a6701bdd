//===- Random.h - Counter-based random numbers ----------------------------===//
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011):
// a number is a function of a key and a counter. The draw of a token therefore depends on seed,
// sequence, position and token only, not on the rank of the token's logit or on other draws.
//
// Logarithms and exponentials are built from f64 additions, multiplications and divisions: the C
// library's results differ between processors, and ranks on different hosts must draw the same.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_RANDOM_H
#define TPC_RT_GENERATE_RANDOM_H

#include <array>
#include <bit>
#include <cstdint>

namespace tpc::rt {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0], b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Random bits of one position of one sequence.
struct Draw {
  uint64_t seed = 0, sequence = 0;
  int64_t position = 0;

  /// Bits of four consecutive tokens, the first of which is 4 * quad.
  PhiloxCounter ofQuad(int64_t quad) const {
    return philox({static_cast<uint32_t>(quad), static_cast<uint32_t>(position),
                   static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)},
                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
  uint32_t of(int64_t token) const { return ofQuad(token / 4)[token % 4]; }
};

/// log of a positive, normal f64; relative error below 1e-15.
double logOf(double x);
/// exp of x <= 0; 0 below -60. Relative error below 1e-15.
double expOf(double x);

/// -log(-log(u)) of u = (bits + 1/2) / 2^32, which has a Gumbel distribution: the token with the
/// largest sum of score and noise is drawn with its softmax probability.
double gumbelOf(uint32_t bits);

/// Upper bound of gumbelOf(bits): by -log(u) >= 1 - u and the number of leading zeros of 1 - u.
inline float gumbelBound(uint32_t bits) {
  return 0.6931472f * static_cast<float>(std::countl_zero(~bits) + 1) + 1e-4f;
}

/// Score plus noise.
inline float perturbed(float score, uint32_t bits) {
  return static_cast<float>(static_cast<double>(score) + gumbelOf(bits));
}

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_RANDOM_H
