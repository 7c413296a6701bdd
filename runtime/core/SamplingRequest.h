//===- SamplingRequest.h - a token to be chosen where logits are -------------------===//
//
// What a device needs to know to choose tokens as generate/Sampler.h does, bit by bit: plain data,
// the rows' part of which is in its memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_SAMPLINGREQUEST_H
#define TPC_RT_CORE_SAMPLINGREQUEST_H

#include <cstdint>

namespace tpc::rt {

/// How the token of a row is chosen: the largest score, or the largest with noise; or, where top-k
/// or top-p is to choose, which scores are the largest. Scores are logits, after `penalty` for
/// tokens that the sequence has, divided by `temperature`. Behind it in memory is a bit for each
/// token of the vocabulary: whether the sequence has it, where there is a penalty.
struct RowSampling {
  int32_t isWanted, isDrawn;
  float temperature; ///< 1: scores are logits
  uint32_t position;
  uint64_t seed, sequence;
  float penalty; ///< 1: none
  int32_t shown; ///< so many of the largest, in place of the best; at most mostShown
  int32_t place; ///< of the first of them: `shown` of all rows before
  int32_t unused;

  static constexpr int64_t mostShown = 1024;
  /// From one to the next, with the bits.
  static constexpr int64_t bytes(int64_t vocabulary) {
    return static_cast<int64_t>(sizeof(RowSampling)) + (vocabulary + 63) / 64 * 8;
  }
};
static_assert(sizeof(RowSampling) == 48, "kernels and tensors of i64 have it so");

/// Logits [rows, count] of tokens from `first` on, in the device's memory, as `settings` are, one
/// for each row, `settingsBytes` apart.
struct SamplingRequest {
  const void *logits;
  int32_t dtype;
  int64_t rows, count, first;
  const RowSampling *settings;
  int64_t settingsBytes;
};

/// Distances of scores from the largest, in bins.
constexpr int numBins = 512;

/// In the device's memory, until the next step begins: of the rows that show their largest tokens,
/// these as integers that have the order of scores (generate/Score.h), each row's in any order, and
/// behind them the least there is where a row has fewer; and [rows, count] of scores, of the same
/// rows.
struct SamplingResult {
  const int64_t *largest;
  const float *scores;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_SAMPLINGREQUEST_H
