//===- Sampler.cpp - Sampling from sharded logits -------------------------===//

#include "core/SamplingRequest.h"
#include "generate/Filtered.h"
#include <stdexcept>

namespace tpc::rt {

SamplerRanks::~SamplerRanks() = default;
DevicePieces::~DevicePieces() = default;

void Sampler::score(std::span<const SampledRow> rows, std::span<const LogitsPiece> pieces) {
  scored.assign(rows.size(), {});
  memory.resize(std::max(memory.size(), pieces.size()));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const LogitsPiece &piece = pieces[i];
    const SampledRow &row = rows[static_cast<size_t>(piece.row)];
    const SamplingSettings &settings = row.settings;
    bool isPenalized = row.isPenalized(), isDivided = row.temperature() != 1;
    bool isFromDevice = piece.logits.empty();
    Scored &made = scored[static_cast<size_t>(piece.row)].emplace_back(
        Scored{i, piece.first, isFromDevice ? piece.count : std::ssize(piece.logits), piece.logits,
               piece.best, piece.largest});
    if (isFromDevice || (!isPenalized && !isDivided))
      continue;
    std::vector<float> &scores = memory[i];
    scores.assign(piece.logits.begin(), piece.logits.end());
    if (isPenalized)
      for (int64_t token : row.seen)
        if (int64_t at = token - piece.first; at >= 0 && at < std::ssize(scores)) {
          float &score = scores[static_cast<size_t>(at)];
          score =
              score < 0 ? score * settings.repetitionPenalty : score / settings.repetitionPenalty;
        }
    if (isDivided)
      for (float &score : scores)
        score /= settings.temperature;
    made.scores = scores;
  }
}

/// Returns the largest score of a non-empty shard; NaN compares as the largest.
static Ranked largestScore(int64_t first, std::span<const float> scores) {
  int32_t key = std::numeric_limits<int32_t>::min();
  for (float score : scores)
    key = std::max(key, keyOf(score));
  size_t at = 0;
  while (keyOf(scores[at]) != key)
    ++at;
  return rank(key, first + static_cast<int64_t>(at));
}

/// Returns the largest score with noise. For most tokens, the leading random bits give a bound of
/// the noise that excludes the token.
static Ranked largestDrawn(int64_t first, std::span<const float> scores, const Draw &draw) {
  Ranked best = noToken;
  float minimum = -std::numeric_limits<float>::infinity();
  int64_t end = first + std::ssize(scores);
  for (int64_t quad = first / 4; quad * 4 < end; ++quad) {
    PhiloxCounter bits = draw.ofQuad(quad);
    for (int64_t token = std::max(first, quad * 4); token < std::min(end, quad * 4 + 4); ++token) {
      float score = scores[static_cast<size_t>(token - first)];
      uint32_t own = bits[static_cast<size_t>(token % 4)];
      if (score + gumbelBound(own) < minimum)
        continue;
      Ranked ranked = rank(perturbed(score, own), token);
      if (ranked > best) {
        best = ranked;
        // Allows for rounding of the sum and the comparison.
        float value = scoreOf(best);
        minimum = value - std::abs(value) * 1e-5f;
      }
    }
  }
  return best;
}

Ranked Sampler::bestOf(const SampledRow &row, size_t index) const {
  Ranked best = noToken;
  for (const Scored &piece : scored[index]) {
    best = std::max(best, piece.best);
    if (!piece.scores.empty()) {
      Ranked largest = largestScore(piece.first, piece.scores);
      if (!row.settings.isGreedy() && !isNaN(largest))
        largest = largestDrawn(piece.first, piece.scores, row.draw());
      best = std::max(best, largest);
    }
  }
  return best;
}

int64_t SampledRow::shown() const {
  constexpr int64_t ofTopP = 64;
  if (!settings.isFiltered())
    return 0;
  return settings.topK ? std::min(settings.topK, RowSampling::maxShown) : ofTopP;
}

std::vector<Ranked> Sampler::largestOf(size_t index, int64_t count) const {
  std::vector<Ranked> kept;
  auto limit = static_cast<size_t>(count);
  Ranked minimum = noToken;
  auto cut = [&] {
    if (kept.size() <= limit)
      return;
    std::nth_element(kept.begin(), kept.begin() + count - 1, kept.end(), std::greater<>());
    kept.resize(limit);
    minimum = kept.back();
  };
  auto add = [&](Ranked ranked) {
    if (ranked <= minimum)
      return;
    kept.push_back(ranked);
    if (kept.size() == 2 * limit + 64)
      cut();
  };
  for (const Scored &piece : scored[index]) {
    for (size_t i = 0; i < piece.scores.size(); ++i)
      add(rank(piece.scores[i], piece.first + static_cast<int64_t>(i)));
    for (Ranked ranked : piece.largest)
      add(ranked);
  }
  cut();
  std::sort(kept.begin(), kept.end(), std::greater<>());
  return kept;
}

int64_t Sampler::tokensOf(size_t index) const {
  int64_t count = 0;
  for (const Scored &piece : scored[index])
    count += piece.count;
  return count;
}

void Sampler::gatherLargest(SamplerRanks &ranks, std::span<const SampledRow> rows,
                            std::vector<Filtered> &filtered, std::vector<SampledToken> &tokens) {
  // Message of a rank. For each filtered row: the rank's number of tokens, and the largest ones.
  // For other rows: the best token.
  mine.clear();
  auto next = filtered.begin();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (next == filtered.end() || next->index != i) {
      mine.push_back(bestOf(rows[i], i));
      continue;
    }
    std::vector<Ranked> largest = largestOf(i, next->row.shown());
    mine.push_back(tokensOf(i));
    mine.insert(mine.end(), largest.begin(), largest.end());
    mine.resize(mine.size() + static_cast<size_t>(next->row.shown()) - largest.size(), noToken);
    ++next;
  }
  all.resize(mine.size() * static_cast<size_t>(ranks.size()));
  ranks.gather(mine, all);

  size_t at = 0;
  next = filtered.begin();
  for (size_t i = 0; i < rows.size(); ++i) {
    bool isFiltered = next != filtered.end() && next->index == i;
    std::vector<Ranked> merged;
    Ranked best = noToken, bound = noToken;
    for (size_t member = at; member < all.size(); member += mine.size()) {
      best = std::max(best, all[member]);
      if (!isFiltered)
        continue;
      int64_t count = std::min(all[member], next->row.shown());
      merged.insert(merged.end(), all.begin() + static_cast<int64_t>(member) + 1,
                    all.begin() + static_cast<int64_t>(member) + 1 + count);
      // The rank may have other tokens, smaller than the last one that it sent.
      if (all[member] > count)
        bound = std::max(bound, merged.back());
    }
    if (!isFiltered) {
      tokens[i] = {tokenOf(best), isNaN(best)};
      ++at;
      continue;
    }
    std::sort(merged.begin(), merged.end(), std::greater<>());
    while (!merged.empty() && merged.back() < bound)
      merged.pop_back();
    at += 1 + static_cast<size_t>(next->row.shown());
    (next++)->setCertain(std::move(merged), bound == noToken);
  }
}

void Sampler::fetchScores(const std::vector<Filtered *> &undecided, DevicePieces *device) {
  for (const Filtered *each : undecided)
    for (Scored &piece : scored[each->index])
      if (piece.scores.empty() && piece.count > 0) {
        std::vector<float> &scores = memory[piece.piece];
        scores.resize(static_cast<size_t>(piece.count));
        device->scoresOf(piece.piece, scores);
        piece.scores = scores;
        piece.largest = {};
      }
}

void Sampler::sumBins(SamplerRanks &ranks, const std::vector<Filtered *> &undecided,
                      DevicePieces *device) {
  std::vector<int64_t> ofDevice(2 * numTopPBins);
  mine.assign(undecided.size() * 2 * numTopPBins, 0);
  for (size_t i = 0; i < undecided.size(); ++i) {
    int64_t *counts = mine.data() + i * 2 * numTopPBins, *weights = counts + numTopPBins;
    float largest = undecided[i]->largest();
    for (const Scored &piece : scored[undecided[i]->index]) {
      if (piece.scores.empty() && piece.count > 0) {
        device->sumsOf(piece.piece, largest, ofDevice);
        for (size_t bin = 0; bin < ofDevice.size(); ++bin)
          counts[bin] += ofDevice[bin];
      }
      for (float score : piece.scores) {
        double distance = below(score, largest);
        int bin = binOf(distance);
        ++counts[bin];
        if (bin < numTopPBins - 1)
          weights[bin] += weightBelow(distance);
      }
    }
  }
  ranks.sum(mine);
  for (size_t i = 0; i < undecided.size(); ++i) {
    std::span<const int64_t> sums(mine.data() + i * 2 * numTopPBins, 2 * numTopPBins);
    undecided[i]->setSums(sums.first(numTopPBins), sums.last(numTopPBins));
  }
}

void Sampler::gatherBins(SamplerRanks &ranks, const std::vector<Filtered *> &undecided) {
  // Message of a rank, for each row: the best token of earlier bins, and the tokens of the bin. One
  // rank may have all tokens of the bin.
  mine.clear();
  for (const Filtered *each : undecided) {
    size_t begin = mine.size();
    mine.push_back(noToken);
    Draw draw = each->row.draw();
    for (const Scored &piece : scored[each->index])
      for (size_t i = 0; i < piece.scores.size(); ++i) {
        float score = piece.scores[i];
        int64_t token = piece.first + static_cast<int64_t>(i);
        int bin = binOf(below(score, each->largest()));
        if (bin == each->bin())
          mine.push_back(rank(score, token));
        else if (bin < each->bin())
          mine[begin] = std::max(mine[begin], rank(perturbed(score, draw.of(token)), token));
      }
    mine.resize(begin + 1 + static_cast<size_t>(each->binCount()), noToken);
  }
  all.resize(mine.size() * static_cast<size_t>(ranks.size()));
  ranks.gather(mine, all);
  size_t at = 0;
  for (Filtered *each : undecided) {
    size_t length = 1 + static_cast<size_t>(each->binCount());
    std::vector<Ranked> tokens;
    Ranked best = noToken;
    for (size_t member = at; member < all.size(); member += mine.size()) {
      best = std::max(best, all[member]);
      for (size_t i = 1; i < length && all[member + i] != noToken; ++i)
        tokens.push_back(all[member + i]);
    }
    at += length;
    each->setBin(std::move(tokens), best);
  }
}

std::vector<SampledToken> Sampler::sample(SamplerRanks &ranks, std::span<const SampledRow> rows,
                                          std::span<const LogitsPiece> pieces,
                                          DevicePieces *device) {
  std::vector<SampledToken> tokens(rows.size());
  if (rows.empty())
    return tokens;
  score(rows, pieces);
  ++theCounts.steps;
  ++theCounts.rounds;
  std::vector<Filtered> filtered;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].settings.isFiltered())
      filtered.emplace_back(rows[i], i);
  if (filtered.empty()) {
    mine.resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
      mine[i] = bestOf(rows[i], i);
    ranks.largest(mine);
    for (size_t i = 0; i < rows.size(); ++i)
      tokens[i] = {tokenOf(mine[i]), isNaN(mine[i])};
    return tokens;
  }
  gatherLargest(ranks, rows, filtered, tokens);
  for (int round = 2;; ++round) {
    std::vector<Filtered *> undecided;
    for (Filtered &each : filtered)
      if (!each.isDecided())
        undecided.push_back(&each);
    if (undecided.empty())
      break;
    ++theCounts.rounds;
    theCounts.extra += round > 3;
    if (round == 2) {
      sumBins(ranks, undecided, device);
    } else {
      fetchScores(undecided, device);
      gatherBins(ranks, undecided);
    }
  }
  for (const Filtered &each : filtered)
    tokens[each.index] = each.result();
  return tokens;
}

} // namespace tpc::rt
