//===- Random.h - random numbers that depend on what they are for ---------===//
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011):
// a number is a function of a key and a counter. So what is drawn for a token depends on seed,
// sequence, position and token alone, wherever the token's logit is and whoever else is drawn for.
//
// Logarithms and powers are made of additions, products and quotients of f64: the C library's are
// others on other processors, and ranks on different hosts must draw the same.
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

/// What is drawn at one place of one sequence.
struct Draw {
  uint64_t seed = 0, sequence = 0;
  int64_t position = 0;

  /// Those of four tokens in a row, of which the first is 4 * quad.
  PhiloxCounter ofQuad(int64_t quad) const {
    return philox({static_cast<uint32_t>(quad), static_cast<uint32_t>(position),
                   static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)},
                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
  uint32_t of(int64_t token) const { return ofQuad(token / 4)[token % 4]; }
};

/// log of a positive, normal f64; relative error below 1e-15.
double logOf(double x);
/// exp of a number that is not positive; 0 below -60. Relative error below 1e-15.
double expOf(double x);

/// -log(-log(u)) of u = (bits + 1/2) / 2^32, which is Gumbel's distribution: whoever has the
/// largest sum of score and noise is drawn with the probability that softmax gives it.
double gumbelOf(uint32_t bits);

/// No less than gumbelOf(bits): -log(u) >= 1 - u, and of 1 - u the leading zeros are counted.
inline float gumbelBound(uint32_t bits) {
  return 0.6931472f * static_cast<float>(std::countl_zero(~bits) + 1) + 1e-4f;
}

/// The score with its noise.
inline float perturbed(float score, uint32_t bits) {
  return static_cast<float>(static_cast<double>(score) + gumbelOf(bits));
}

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_RANDOM_H
