//===- Settings.h - how tokens are chosen ---------------------------------===//

#ifndef TPC_RT_GENERATE_SETTINGS_H
#define TPC_RT_GENERATE_SETTINGS_H

#include <cstdint>
#include <string>
#include <vector>

namespace tpc::rt {

/// In the order in which they apply, which is Hugging Face's.
struct SamplingSettings {
  /// Scores of tokens that are in the sequence, once each, are divided by it if they are positive,
  /// else multiplied. 1: not at all.
  float repetitionPenalty = 1;
  /// Scores are divided by it. 0, and what is so small that scores would be infinite: the largest
  /// is taken, and what follows does not matter.
  float temperature = 0;
  int64_t topK = 0; ///< so many of the largest are left; 0: all
  double topP = 1;  ///< of these as few of the largest as have this probability; 1: all
  uint64_t seed = 0;

  static constexpr float leastTemperature = 1e-30f;
  bool isGreedy() const { return temperature < leastTemperature; }
  bool isFiltered() const { return !isGreedy() && (topK > 0 || topP < 1); }
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SETTINGS_H
