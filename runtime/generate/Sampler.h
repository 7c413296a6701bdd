//===- Sampler.h - Sampling from sharded logits ---------------------------===//
//
// Each rank has vocabulary shards of some rows, or none. All ranks participate and receive the
// result. Logits are not gathered; ranks exchange:
//   greedy, or unfiltered sampling        one reduction: the largest score, with its token
//   top-k, top-p                          a gather of the largest scores of each shard
//   top-p beyond the gathered tokens      sums of weights, by bins of the distance from the largest
//                                         score; then, if still undecided, the scores of one bin
// In all cases the result equals that of unsharded logits bit for bit: no candidate is dropped, and
// sums are of integers (Score.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_SAMPLER_H
#define TPC_RT_GENERATE_SAMPLER_H

#include "generate/Score.h"
#include "generate/Settings.h"
#include <span>
#include <vector>

namespace tpc::rt {

/// Collectives that sampling needs. All ranks make the same calls with the same counts.
class SamplerRanks {
public:
  virtual ~SamplerRanks();
  virtual int size() const = 0;
  /// Replaces each value by the maximum over all ranks.
  virtual void largest(std::span<int64_t> values) = 0;
  virtual void sum(std::span<int64_t> values) = 0;
  /// Concatenates the values of all ranks.
  virtual void gather(std::span<const int64_t> mine, std::span<int64_t> all) = 0;
};

/// Sampling inputs of a row, equal on all ranks.
struct SampledRow {
  SamplingSettings settings;
  std::span<const int64_t> seen; ///< distinct tokens of the sequence
  uint64_t sequence = 0;         ///< random stream
  int64_t position = 0;          ///< position of the sampled token in its sequence

  Draw draw() const { return {settings.seed, sequence, position}; }
  bool isPenalized() const { return settings.repetitionPenalty != 1 && !seen.empty(); }
  /// Divisor of the scores.
  float temperature() const { return settings.isGreedy() ? 1 : settings.temperature; }
  /// Number of top-scoring tokens that each rank contributes first. It suffices for top-k alone,
  /// unless k is very large. 0: only the best token.
  int64_t shown() const;
};

/// Logits of a row on a rank, of tokens [first, first + logits.size()). If the device samples, its
/// result for `count` tokens instead: the best token or, for a filtered row, the shown()
/// top-scoring tokens in any order.
struct LogitsPiece {
  int64_t row = 0, first = 0;
  std::span<const float> logits;
  Ranked best = noToken;
  int64_t count = 0;
  std::span<const Ranked> largest;
};

/// Data of filtered rows on a device, in addition to the top-scoring tokens.
class DevicePieces {
public:
  virtual ~DevicePieces();
  /// Sets `sums` to counts, then weights, by bins of the distance from the largest score.
  virtual void sumsOf(size_t piece, float largest, std::span<int64_t> sums) = 0;
  virtual void scoresOf(size_t piece, std::span<float> scores) = 0;
};

struct SampledToken {
  int64_t token = -1;
  bool isNaN = false; ///< the logit of `token` is NaN; others may be too
};

/// Sampler of one rank. Reuses its memory between steps.
class Sampler {
public:
  /// Collective. Shards of a row do not overlap; each row has at least one shard.
  std::vector<SampledToken> sample(SamplerRanks &ranks, std::span<const SampledRow> rows,
                                   std::span<const LogitsPiece> pieces,
                                   DevicePieces *device = nullptr);

  struct Counts {
    int64_t steps = 0, rounds = 0; ///< a round is one exchange between ranks
    int64_t extra = 0;             ///< number of rounds beyond the third of a step
  };
  const Counts &counts() const { return theCounts; }

private:
  class Filtered;
  void score(std::span<const SampledRow> rows, std::span<const LogitsPiece> pieces);
  /// Returns the best token of a row, with noise unless the row is greedy.
  Ranked bestOf(const SampledRow &row, size_t index) const;
  /// Returns the `count` top-scoring tokens of a row, in descending order.
  std::vector<Ranked> largestOf(size_t index, int64_t count) const;
  int64_t tokensOf(size_t index) const;
  void gatherLargest(SamplerRanks &ranks, std::span<const SampledRow> rows,
                     std::vector<Filtered> &filtered, std::vector<SampledToken> &tokens);
  void sumBins(SamplerRanks &ranks, const std::vector<Filtered *> &undecided, DevicePieces *device);
  void gatherBins(SamplerRanks &ranks, const std::vector<Filtered *> &undecided);

  /// Scores of this rank by row, or the device's result.
  struct Scored {
    size_t piece;
    int64_t first, count;
    std::span<const float> scores;
    Ranked best;
    std::span<const Ranked> largest;
  };
  void fetchScores(const std::vector<Filtered *> &undecided, DevicePieces *device);
  std::vector<std::vector<Scored>> scored;
  std::vector<std::vector<float>> memory;
  std::vector<int64_t> mine, all;
  Counts theCounts;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SAMPLER_H
