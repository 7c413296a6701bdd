//===- ReferenceSampler.h - Reference sampler for unsharded logits --------===//
//
// A direct implementation of the sampler's specification: sorts all logits.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_TEST_REFERENCESAMPLER_H
#define TPC_RT_GENERATE_TEST_REFERENCESAMPLER_H

#include "generate/Sampler.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace tpc::rt {

/// Returns the tokens that may be drawn, in descending probability, with their scores.
inline std::vector<std::pair<float, int64_t>> keptTokens(const std::vector<float> &logits,
                                                         const SamplingSettings &settings,
                                                         const std::set<int64_t> &seen) {
  std::vector<std::pair<float, int64_t>> tokens;
  for (int64_t i = 0; i < std::ssize(logits); ++i) {
    float score = logits[static_cast<size_t>(i)];
    if (seen.contains(i))
      score = score < 0 ? score * settings.repetitionPenalty : score / settings.repetitionPenalty;
    if (settings.temperature != 0)
      score /= settings.temperature;
    tokens.emplace_back(score, i);
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (settings.temperature == 0)
    tokens.resize(1);
  if (settings.topK && settings.topK < std::ssize(tokens))
    tokens.resize(static_cast<size_t>(settings.topK));
  if (settings.topP < 1) {
    auto weightOf = [&](const auto &token) {
      return weightBelow(below(token.first, tokens[0].first));
    };
    int64_t total = 0, before = 0;
    for (const auto &token : tokens)
      total += weightOf(token);
    double needed = std::ceil(settings.topP * static_cast<double>(total));
    size_t count = 0;
    while (count < tokens.size() && before < static_cast<int64_t>(needed))
      before += weightOf(tokens[count++]);
    tokens.resize(count);
  }
  return tokens;
}

inline int64_t referenceToken(const std::vector<float> &logits, const SampledRow &row) {
  auto tokens = keptTokens(logits, row.settings, {row.seen.begin(), row.seen.end()});
  if (row.settings.temperature == 0)
    return tokens[0].second;
  float best = 0;
  int64_t chosen = -1;
  for (const auto &[score, token] : tokens) {
    float value = static_cast<float>(score + gumbelOf(row.draw().of(token)));
    if (chosen < 0 || value > best || (value == best && token < chosen)) {
      best = value;
      chosen = token;
    }
  }
  return chosen;
}

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_TEST_REFERENCESAMPLER_H
