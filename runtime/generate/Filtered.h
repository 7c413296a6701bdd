//===- Filtered.h - what top-k and top-p leave of a row -------------------===//
//
// The same on all ranks: it is made of what they exchange. Tokens are in the order of their scores,
// and in that of their numbers where scores are equal.
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

  /// The largest of all, from the first on; `complete`: there are no others.
  void setCertain(std::vector<Ranked> tokens, bool complete);
  /// Of all tokens, by bins.
  void setSums(std::span<const int64_t> counts, std::span<const int64_t> weights);
  /// All tokens of the bin, and the largest with noise of those in the bins before it.
  void setBin(std::vector<Ranked> tokens, Ranked bestBefore);

  float largest() const { return scoreOf(certain[0]); }
  bool isDecided() const { return token != nobody; }
  SampledToken result() const { return {tokenOf(token), isNoNumber(token)}; }
  bool hasSums() const { return !counts.empty(); }
  /// What is needed next, where there are sums: this bin, of so many tokens.
  int bin() const { return wanted; }
  int64_t binCount() const { return counts[wanted]; }

private:
  int64_t weightOf(Ranked ranked) const {
    return weightBelow(below(scoreOf(ranked), scoreOf(certain[0])));
  }
  /// Of a list of tokens behind others of weight `before`, how many top-p leaves, if it leaves as
  /// many as have the weight `needed`.
  size_t countKept(std::span<const Ranked> tokens, int64_t before, int64_t needed) const;
  int64_t neededOf(int64_t total) const;
  /// The weight of what top-k leaves.
  int64_t totalBySums() const;
  Ranked withNoise(Ranked ranked) const;
  /// The result is one of these, or `best`.
  void decide(std::span<const Ranked> kept, Ranked best);
  void decideBySums();

  std::vector<Ranked> certain;
  bool isComplete = false;
  std::vector<int64_t> counts, weights;
  int wanted = -1;
  /// Of the bin at which top-k ends: its tokens that are left.
  int lastBin = -1;
  std::vector<Ranked> lastTokens;
  Ranked token = nobody;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_FILTERED_H
