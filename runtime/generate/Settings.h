//===- Settings.h - Sampling settings -------------------------------------===//

#ifndef TPC_RT_GENERATE_SETTINGS_H
#define TPC_RT_GENERATE_SETTINGS_H

#include <cstdint>
#include <string>
#include <vector>

namespace tpc::rt {

/// Settings in the order of application, the same as Hugging Face's.
struct SamplingSettings {
  /// For each distinct token of the sequence, a positive score is divided by the penalty, another
  /// score multiplied. 1: no penalty.
  float repetitionPenalty = 1;
  /// Divisor of the scores. With 0, or a value so small that scores would overflow, the largest
  /// score is selected and the settings below are ignored.
  float temperature = 0;
  int64_t topK = 0; ///< number of largest scores that remain; 0: all
  double topP = 1;  ///< minimum total probability of the tokens that remain; 1: all
  uint64_t seed = 0;

  static constexpr float minTemperature = 1e-30f;
  bool isGreedy() const { return temperature < minTemperature; }
  bool isFiltered() const { return !isGreedy() && (topK > 0 || topP < 1); }
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SETTINGS_H
