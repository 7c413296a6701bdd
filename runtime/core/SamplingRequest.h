//===- SamplingRequest.h - Request to sample tokens on the device ---------===//
//
// Parameters with which a device samples tokens bit-identically to generate/Sampler.h. These are
// plain data. The settings of each row reside in device memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_SAMPLINGREQUEST_H
#define TPC_RT_CORE_SAMPLINGREQUEST_H

#include <cstdint>

namespace tpc::rt {

/// Sampling settings of a row. The device returns the largest score, with noise if the row is
/// sampled, or, with top-k or top-p, several largest scores. Scores are logits, after `penalty` for
/// tokens of the sequence, divided by `temperature`. With a penalty, one bit per token of the
/// vocabulary follows in memory: whether the sequence contains the token.
struct RowSampling {
  int32_t isWanted;  ///< the row is sampled; 0: it is skipped
  int32_t isDrawn;   ///< noise is added; 0: the largest score wins
  float temperature; ///< 1: scores are logits
  uint32_t position;
  uint64_t seed, sequence;
  float penalty;       ///< 1: none
  int32_t shown;       ///< number of largest scores to return instead of the best; at most maxShown
  int32_t shownBefore; ///< sum of `shown` over earlier rows: offset in the results
  int32_t unused;

  static constexpr int64_t maxShown = 1024;
  /// Bytes from one row's settings to the next, bits included.
  static constexpr int64_t bytes(int64_t vocabulary) {
    return static_cast<int64_t>(sizeof(RowSampling)) + (vocabulary + 63) / 64 * 8;
  }
};
static_assert(sizeof(RowSampling) == 48, "size assumed by kernels and i64 tensors");

/// Step inputs with one element per row, in device memory, that the device advances after sampling:
/// the step can then run again for the next token. Only rows whose best token is chosen advance.
struct AdvancedInputs {
  void *tokens = nullptr; ///< receives the chosen token, at most `lastToken`; null: none advance
  void *lengths = nullptr, *windowLengths = nullptr;        ///< grow by 1; the second may be null
  int32_t tokenBytes = 8, lengthBytes = 8, windowBytes = 8; ///< 4 or 8 bytes per element
  int64_t lastToken = 0;
};

/// Logits [rows, count] of tokens from `first` on, in device memory. `settings` has one entry per
/// row, `settingsBytes` apart; of rows that advance, positions and tokens of the sequence advance.
struct SamplingRequest {
  const void *logits;
  int32_t dtype;
  int64_t rows, count, first;
  const RowSampling *settings;
  int64_t settingsBytes;
  AdvancedInputs advanced = {};
};

/// Number of bins for the distances of scores from the largest score.
constexpr int numBins = 512;

/// Results in device memory, valid until the next step starts. largest: for each row with `shown` >
/// 0, its largest scores as integers with the order of scores (generate/Score.h), unordered within
/// a row, padded with the minimum integer. scores: the scores [rows, count] of the same rows.
struct SamplingResult {
  const int64_t *largest;
  const float *scores;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_SAMPLINGREQUEST_H
