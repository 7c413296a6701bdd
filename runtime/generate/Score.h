//===- Score.h - scores in one order, and what weight they have -----------===//
//
// A score and its token are one integer, larger for the larger score, and, of equal scores, for the
// lower token. So the largest of all shards is a reduction of integers, and an order by value is
// the same everywhere.
//
// Weights are integers as well: sums of them do not depend on who adds what first, and so not on
// how the vocabulary is split.
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

/// A token with its score; nothing is less than any.
using Ranked = int64_t;
constexpr Ranked nobody = std::numeric_limits<int64_t>::min();

/// In the order of the numbers; both zeros are one, and whatever is no number is above all.
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
constexpr bool isNoNumber(Ranked ranked) {
  return (ranked >> 32) == std::numeric_limits<int32_t>::max();
}
inline float scoreOf(Ranked ranked) {
  auto key = static_cast<int32_t>(ranked >> 32);
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}

/// How far a score is below the largest; 0 where both are the same infinity.
inline double below(float score, float largest) {
  return score == largest ? 0 : static_cast<double>(largest) - static_cast<double>(score);
}

/// exp of a score, relative to that of the largest, in units of 2^-40. Of 2^22 tokens the sum fits.
inline int64_t weightBelow(double distance) {
  return static_cast<int64_t>(expOf(-distance) * 0x1p40 + 0.5);
}
constexpr int64_t mostTokens = int64_t(1) << 22;

/// Distances from the largest, in bins. What is in the last one has no weight.
inline int binOf(double distance) {
  return static_cast<int>(std::min(distance * 16, static_cast<double>(numBins - 1)));
}
static_assert((numBins - 1) / 16 > 29, "exp(-29) is less than half a unit of 2^-40");

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SCORE_H
