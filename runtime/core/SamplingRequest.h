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

/// Sampling settings of a row. The device returns the largest score (with noise added to all scores
/// if `hasNoise`) or, with top-k or top-p, the `shown` largest scores. Scores are logits, after
/// `penalty` for tokens of the sequence, divided by `temperature`. With a penalty, one bit per
/// token of the vocabulary follows in memory: whether the sequence contains the token.
struct RowSampling {
  int32_t isActive;  ///< 0: the row is skipped
  int32_t hasNoise;  ///< 0: the largest score wins
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
/// row, `settingsBytes` apart. For rows that advance, the device adds 1 to `position` and sets the
/// chosen token's bit.
struct SamplingRequest {
  const void *logits;
  int32_t dtype;
  int64_t rows, count, first;
  const RowSampling *settings;
  int64_t settingsBytes;
  AdvancedInputs advanced = {};
};

/// Top-p: number of bins in which probabilities are summed, by distance from the largest score.
constexpr int numTopPBins = 512;

/// Results in device memory, valid until the next step starts. largest: for each row with `shown` >
/// 0, its largest scores as integers with the order of scores (generate/Score.h), unordered within
/// a row, padded with the minimum integer. scores: the scores [rows, count] of the same rows.
struct SamplingResult {
  const int64_t *largest;
  const float *scores;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_SAMPLINGREQUEST_H
