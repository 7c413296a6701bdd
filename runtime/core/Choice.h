//===- Choice.h - a token to be chosen where logits are -------------------===//
//
// What a device needs to know to choose tokens as generate/Sampler.h does, bit by bit: plain data,
// the rows' part of which is in its memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_CHOICE_H
#define TPC_RT_CORE_CHOICE_H

#include <cstdint>

namespace tpc::rt {

/// How the token of a row is chosen: the largest score, or the largest with noise. Scores are
/// logits, divided by `temperature`.
struct RowChoice {
  int32_t isWanted, isDrawn;
  float temperature; ///< 1: scores are logits
  uint32_t position;
  uint64_t seed, sequence;
};
static_assert(sizeof(RowChoice) == 32, "kernels and tensors of i64 have it so");

/// Logits [rows, count] of tokens from `first` on, in the device's memory, as `settings` are, one
/// for each row.
struct Choice {
  const void *logits;
  int32_t dtype;
  int64_t rows, count, first;
  const RowChoice *settings;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_CHOICE_H
