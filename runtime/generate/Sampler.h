//===- Sampler.h - chooses tokens of logits that are split ----------------===//
//
// Ranks have pieces of the vocabulary, of some rows each, or none; all take part, and all get the
// result. Logits are not gathered. What is exchanged:
//
//   greedy, or all tokens by their probability   one reduction: the largest score, with its token
//   top-k, top-p                                 the largest scores of each piece are gathered
//   top-p of more tokens than are certain then   sums of weights, by bins of the distance from the
//                                                largest score; if it is not decided then,
//                                                the scores of the bin in which it is
//
// Whatever is asked, the result is that of all logits in one place, bit for bit: nothing is cut off
// that would have to be looked at, and sums are of integers (Score.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_SAMPLER_H
#define TPC_RT_GENERATE_SAMPLER_H

#include "generate/Score.h"
#include "generate/Settings.h"
#include <span>
#include <vector>

namespace tpc::rt {

/// What sampling needs of the ranks. All call the same, with as many numbers.
class SamplerRanks {
public:
  virtual ~SamplerRanks();
  virtual int size() const = 0;
  /// The largest of each that a rank has.
  virtual void largest(std::span<int64_t> values) = 0;
  virtual void sum(std::span<int64_t> values) = 0;
  /// What each rank has, one after the other.
  virtual void gather(std::span<const int64_t> mine, std::span<int64_t> all) = 0;
};

/// What is known of a row everywhere.
struct SampledRow {
  SamplingSettings settings;
  std::span<const int64_t> seen; ///< tokens of the sequence, each once
  uint64_t sequence = 0;         ///< of random numbers
  int64_t position = 0;          ///< that the token will have in its sequence

  Draw draw() const { return {settings.seed, sequence, position}; }
  bool isPenalized() const { return settings.repetitionPenalty != 1 && !seen.empty(); }
  /// By whom scores are divided.
  float temperature() const { return settings.isGreedy() ? 1 : settings.temperature; }
  /// How many of its largest tokens each rank shows at first: so many that top-k alone is decided
  /// then, unless it leaves very many. 0: no more than the best.
  int64_t shown() const;
};

/// Logits of a row that a rank has: of tokens [first, first + logits.size()). Or what its device
/// has found among `count` of them: the best; or, of a row that is filtered, as many of the largest
/// as are shown, in any order.
struct LogitsPiece {
  int64_t row = 0, first = 0;
  std::span<const float> logits;
  Ranked best = nobody;
  int64_t count = 0;
  std::span<const Ranked> largest;
};

/// What a device has of pieces of filtered rows beside the largest.
class DevicePieces {
public:
  virtual ~DevicePieces();
  /// By bins of the distance from the largest, how many there are, then their weights.
  virtual void sumsOf(size_t piece, float largest, std::span<int64_t> sums) = 0;
  virtual void scoresOf(size_t piece, std::span<float> scores) = 0;
};

struct SampledToken {
  int64_t token = -1;
  bool isNoNumber = false; ///< the logit of `token`, and perhaps others, is NaN
};

/// A rank's. Keeps memory from step to step.
class Sampler {
public:
  /// Collective. Pieces of a row do not overlap; each row has one somewhere.
  std::vector<SampledToken> choose(SamplerRanks &ranks, std::span<const SampledRow> rows,
                                   std::span<const LogitsPiece> pieces,
                                   DevicePieces *device = nullptr);

  struct Counts {
    int64_t steps = 0, rounds = 0;
    int64_t extra = 0; ///< rounds beyond the third of a step
  };
  const Counts &counts() const { return theCounts; }

private:
  class Filtered;
  void score(std::span<const SampledRow> rows, std::span<const LogitsPiece> pieces);
  /// The largest, after the noise where there is any.
  Ranked bestOf(const SampledRow &row, size_t index) const;
  /// The `count` largest of a row, in descending order.
  std::vector<Ranked> largestOf(size_t index, int64_t count) const;
  int64_t tokensOf(size_t index) const;
  void gatherLargest(SamplerRanks &ranks, std::span<const SampledRow> rows,
                     std::vector<Filtered> &filtered, std::vector<SampledToken> &tokens);
  void sumBins(SamplerRanks &ranks, const std::vector<Filtered *> &open, DevicePieces *device);
  void gatherBins(SamplerRanks &ranks, const std::vector<Filtered *> &open);

  /// The scores that this rank has, by row, or what its device has found among them.
  struct Scored {
    size_t piece;
    int64_t first, count;
    std::span<const float> scores;
    Ranked best;
    std::span<const Ranked> largest;
  };
  void fetchScores(const std::vector<Filtered *> &open, DevicePieces *device);
  std::vector<std::vector<Scored>> scored;
  std::vector<std::vector<float>> memory;
  std::vector<int64_t> mine, all;
  Counts theCounts;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SAMPLER_H
