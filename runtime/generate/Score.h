//===- Score.h - Integer order and weights of scores ----------------------===//
//
// A score and its token form one integer, larger for larger scores and, for equal scores, for lower
// tokens. The maximum over all shards is therefore an integer reduction, and the order is the same
// on all ranks.
//
// Weights are integers as well: their sums depend neither on the order of additions nor on how the
// vocabulary is sharded.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_SCORE_H
#define TPC_RT_GENERATE_SCORE_H

#include "core/SamplingRequest.h"
#include "generate/Random.h"
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace tpc::rt {

/// A token with its score. `noToken` is less than all tokens.
using Ranked = int64_t;
constexpr Ranked noToken = std::numeric_limits<int64_t>::min();

/// Integer in the order of the scores. Both zeros are equal, and NaN is above all numbers.
inline int32_t keyOf(float score) {
  auto bits = std::bit_cast<int32_t>(score + 0.0f);
  int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
  return score == score ? key : std::numeric_limits<int32_t>::max();
}
constexpr Ranked rank(int32_t key, int64_t token) {
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(key)) << 32 |
                              static_cast<uint32_t>(~token));
}
inline Ranked rank(float score, int64_t token) { return rank(keyOf(score), token); }

constexpr int64_t tokenOf(Ranked ranked) { return static_cast<uint32_t>(~ranked); }
constexpr bool isNaN(Ranked ranked) {
  return (ranked >> 32) == std::numeric_limits<int32_t>::max();
}
inline float scoreOf(Ranked ranked) {
  auto key = static_cast<int32_t>(ranked >> 32);
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}

/// Distance of a score from the largest score; 0 if both are the same infinity.
inline double below(float score, float largest) {
  return score == largest ? 0 : static_cast<double>(largest) - static_cast<double>(score);
}

/// exp of a score relative to the largest, in units of 2^-40. The sum of 2^22 tokens fits in 63
/// bits.
inline int64_t weightBelow(double distance) {
  return static_cast<int64_t>(expOf(-distance) * 0x1p40 + 0.5);
}
constexpr int64_t maxTokens = int64_t(1) << 22;

/// Bin of a distance from the largest score. Tokens of the last bin have weight 0.
inline int binOf(double distance) {
  return static_cast<int>(std::min(distance * 16, static_cast<double>(numTopPBins - 1)));
}
static_assert((numTopPBins - 1) / 16 > 29, "exp(-29) is less than half a unit of 2^-40");

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SCORE_H
