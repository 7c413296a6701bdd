//===- Filtered.h - Top-k and top-p filtering of a row --------------------===//
//
// All ranks compute the same state from the data that they exchange. Tokens are ordered by
// descending score, and equal scores by ascending token.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_FILTERED_H
#define TPC_RT_GENERATE_FILTERED_H

#include "generate/Sampler.h"
#include <optional>

namespace tpc::rt {

class Sampler::Filtered {
public:
  Filtered(const SampledRow &row, size_t index) : row(row), index(index) {}

  const SampledRow &row;
  const size_t index;

  /// Sets the top-scoring tokens, in order; `complete`: there are no others.
  void setCertain(std::vector<Ranked> tokens, bool complete);
  /// Sets counts and weights of all tokens, by bin.
  void setSums(std::span<const int64_t> counts, std::span<const int64_t> weights);
  /// Sets all tokens of the bin, and the best token with noise of earlier bins.
  void setBin(std::vector<Ranked> tokens, Ranked bestBefore);

  float largest() const { return scoreOf(certain[0]); }
  bool isDecided() const { return token != noToken; }
  SampledToken result() const { return {tokenOf(token), isNaN(token)}; }
  bool hasSums() const { return !counts.empty(); }
  /// Returns the bin whose tokens are needed next. Requires the sums.
  int bin() const { return wantedBin; }
  /// Returns the number of tokens of bin().
  int64_t binCount() const { return counts[wantedBin]; }

private:
  int64_t weightOf(Ranked ranked) const {
    return weightBelow(below(scoreOf(ranked), scoreOf(certain[0])));
  }
  /// Returns how many of `tokens` top-p keeps. `before`: weight of earlier tokens. Top-p keeps
  /// tokens until the weight `needed` is reached.
  size_t countKept(std::span<const Ranked> tokens, int64_t before, int64_t needed) const;
  int64_t neededOf(int64_t total) const;
  /// Returns the total weight of the tokens that top-k keeps.
  int64_t totalBySums() const;
  Ranked withNoise(Ranked ranked) const;
  /// Sets the result: the best of `kept`, or `best`.
  void decide(std::span<const Ranked> kept, Ranked best);
  void decideBySums();

  std::vector<Ranked> certain;
  bool isComplete = false;
  std::vector<int64_t> counts, weights;
  int wantedBin = -1;
  int lastBin = -1;               ///< bin in which top-k ends
  std::vector<Ranked> lastTokens; ///< tokens of this bin that top-k keeps
  Ranked token = noToken;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_FILTERED_H
