//===- Filtered.cpp - Top-k and top-p filtering of a row ------------------===//

#include "generate/Filtered.h"
#include <cmath>

namespace tpc::rt {

int64_t Sampler::Filtered::neededOf(int64_t total) const {
  if (row.settings.topP == 1)
    return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::ceil(row.settings.topP * static_cast<double>(total)));
}

size_t Sampler::Filtered::countKept(std::span<const Ranked> tokens, int64_t before,
                                    int64_t needed) const {
  size_t count = 0;
  for (; count < tokens.size() && before < needed; ++count)
    before += weightOf(tokens[count]);
  return count;
}

Ranked Sampler::Filtered::withNoise(Ranked ranked) const {
  int64_t of = tokenOf(ranked);
  return rank(perturbed(scoreOf(ranked), row.draw().of(of)), of);
}

void Sampler::Filtered::decide(std::span<const Ranked> kept, Ranked best) {
  token = best;
  for (Ranked ranked : kept)
    token = std::max(token, withNoise(ranked));
}

void Sampler::Filtered::setCertain(std::vector<Ranked> tokens, bool complete) {
  certain = std::move(tokens);
  isComplete = complete;
  if (certain.empty())
    return;
  if (isNaN(certain[0])) {
    token = certain[0];
    return;
  }
  const SamplingSettings &settings = row.settings;
  auto known = static_cast<int64_t>(certain.size());
  if (!complete && (settings.topK == 0 || settings.topK > known))
    return;
  std::span<const Ranked> remaining(certain);
  if (settings.topK)
    remaining = remaining.first(static_cast<size_t>(std::min(settings.topK, known)));
  if (settings.topP < 1) {
    int64_t total = 0;
    for (Ranked ranked : remaining)
      total += weightOf(ranked);
    remaining = remaining.first(countKept(remaining, 0, neededOf(total)));
  }
  decide(remaining, noToken);
}

void Sampler::Filtered::setSums(std::span<const int64_t> countsOfAll,
                                std::span<const int64_t> weightsOfAll) {
  counts.assign(countsOfAll.begin(), countsOfAll.end());
  weights.assign(weightsOfAll.begin(), weightsOfAll.end());
  int64_t remaining = row.settings.topK;
  for (int i = 0; remaining > 0 && i < numTopPBins; ++i) {
    if (remaining <= counts[i]) {
      lastBin = i;
      wantedBin = i;
      return;
    }
    remaining -= counts[i];
  }
  decideBySums(); // top-k, if set, keeps all tokens
}

int64_t Sampler::Filtered::totalBySums() const {
  int64_t total = 0;
  for (int i = 0; i < (lastBin < 0 ? numTopPBins : lastBin); ++i)
    total += weights[i];
  for (Ranked ranked : lastTokens)
    total += weightOf(ranked);
  return total;
}

void Sampler::Filtered::decideBySums() {
  int64_t needed = neededOf(totalBySums());
  // The known tokens are a prefix of those that top-k keeps. They suffice if top-p ends within the
  // prefix.
  if (size_t kept = countKept(certain, 0, needed); kept < certain.size()) {
    decide(std::span(certain).first(kept), noToken);
    return;
  }
  int end = lastBin < 0 ? numTopPBins - 1 : lastBin;
  int64_t before = 0;
  for (wantedBin = 0; wantedBin < end && before + weights[wantedBin] < needed; ++wantedBin)
    before += weights[wantedBin];
}

void Sampler::Filtered::setBin(std::vector<Ranked> tokens, Ranked bestBefore) {
  std::sort(tokens.begin(), tokens.end(), std::greater<>());
  int64_t before = 0, weightBefore = 0;
  for (int i = 0; i < wantedBin; ++i) {
    before += counts[i];
    weightBefore += weights[i];
  }
  if (wantedBin == lastBin && lastTokens.empty()) {
    tokens.resize(static_cast<size_t>(row.settings.topK - before));
    lastTokens = tokens;
    decideBySums();
    if (isDecided() || wantedBin != lastBin)
      return;
  }
  // Top-p ends in this bin.
  size_t kept = countKept(tokens, weightBefore, neededOf(totalBySums()));
  decide(std::span<const Ranked>(tokens).first(kept), bestBefore);
}

} // namespace tpc::rt
