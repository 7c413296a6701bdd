//===- SamplerTest.cpp - Comparison of sharded and unsharded sampling -----===//

#include "ReferenceSampler.h"
#include "core/World.h"
#include "generate/WorldRanks.h"
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <random>

using namespace tpc::rt;

namespace {

using Logits = std::vector<std::vector<float>>;

/// First tokens of the shards of a row, followed by the vocabulary size.
using Split = std::vector<int64_t>;

struct SamplingResult {
  std::vector<SampledToken> tokens;
  Sampler::Counts counts;
};

/// Result of a device that samples.
struct DeviceResult {
  std::vector<float> scores;
  std::vector<Ranked> largest;
  LogitsPiece piece;

  DeviceResult(const LogitsPiece &of, const SampledRow &row)
      : scores(of.logits.begin(), of.logits.end()),
        piece{of.row, of.first, {}, noToken, std::ssize(of.logits), {}} {
    for (int64_t token = of.first; float &score : scores) {
      if (std::find(row.seen.begin(), row.seen.end(), token) != row.seen.end())
        score = score < 0 ? score * row.settings.repetitionPenalty
                          : score / row.settings.repetitionPenalty;
      score /= row.temperature();
      if (row.settings.isFiltered())
        largest.push_back(rank(score, token));
      else
        piece.best = std::max(
            piece.best,
            rank(row.settings.isGreedy() ? score : perturbed(score, row.draw().of(token)), token));
      ++token;
    }
    // The order is arbitrary.
    std::sort(largest.begin(), largest.end(), std::greater<>());
    largest.resize(static_cast<size_t>(std::min(row.shown(), std::ssize(largest))));
    std::reverse(largest.begin(), largest.end());
    piece.largest = largest;
  }
};

struct OnDevice final : DevicePieces {
  explicit OnDevice(const std::deque<DeviceResult> &results) : results(results) {}
  void sumsOf(size_t piece, float largest, std::span<int64_t> sums) override {
    ASSERT_EQ(sums.size(), 2u * numTopPBins);
    std::fill(sums.begin(), sums.end(), 0);
    for (float score : results[piece].scores) {
      double distance = below(score, largest);
      auto bin = static_cast<size_t>(binOf(distance));
      ++sums[bin];
      sums[numTopPBins + bin] += bin < numTopPBins - 1 ? weightBelow(distance) : 0;
    }
  }
  void scoresOf(size_t piece, std::span<float> scores) override {
    ASSERT_EQ(scores.size(), results[piece].scores.size());
    std::copy(results[piece].scores.begin(), results[piece].scores.end(), scores.begin());
  }
  const std::deque<DeviceResult> &results;
};

/// Each rank has a shard of each row, and all must get the same result. Every second rank has a
/// device that samples.
SamplingResult sample(const Logits &logits, const std::vector<SampledRow> &rows,
                      const Split &split) {
  SamplingResult result;
  std::mutex mutex;
  bool isFirst = true;
  auto error = runWorld(static_cast<int>(split.size()) - 1, [&](tpc_context &ctx) {
    auto shard = static_cast<size_t>(ctx.rank);
    std::vector<LogitsPiece> pieces;
    for (size_t row = 0; row < rows.size(); ++row)
      if (int64_t count = split[shard + 1] - split[shard])
        pieces.push_back(
            {static_cast<int64_t>(row),
             split[shard],
             std::span(logits[row])
                 .subspan(static_cast<size_t>(split[shard]), static_cast<size_t>(count)),
             noToken,
             0,
             {}});
    std::deque<DeviceResult> results;
    for (LogitsPiece &piece : pieces)
      if (shard % 2)
        piece = results.emplace_back(piece, rows[static_cast<size_t>(piece.row)]).piece;
    OnDevice device(results);
    WorldRanks ranks(ctx);
    Sampler sampler;
    auto tokens = sampler.sample(ranks, rows, pieces, &device);
    std::lock_guard<std::mutex> lock(mutex);
    if (isFirst)
      result = {tokens, sampler.counts()};
    isFirst = false;
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i].token, result.tokens[i].token);
      EXPECT_EQ(tokens[i].isNaN, result.tokens[i].isNaN);
    }
  });
  EXPECT_EQ(error.value_or(""), "");
  return result;
}

Split evenly(int64_t vocabulary, int shards) {
  Split split;
  for (int i = 0; i <= shards; ++i)
    split.push_back(vocabulary * i / shards);
  return split;
}

/// 1, 2, 3, 4 and 7 shards, and splits in which the first, last, or middle shards are empty.
std::vector<Split> splitsOf(int64_t vocabulary) {
  std::vector<Split> splits;
  for (int shards : {1, 2, 3, 4, 7})
    splits.push_back(evenly(vocabulary, shards));
  splits.push_back({0, 0, vocabulary / 3, vocabulary});
  splits.push_back({0, vocabulary, vocabulary, vocabulary});
  splits.push_back({0, 1, 1, vocabulary - 1, vocabulary});
  return splits;
}

struct Shape {
  const char *name;
  std::function<float(std::mt19937 &)> draw;
};

/// Distributions of scores: model-like, flat, peaked, with many equal scores, with only equal
/// scores, with infinities.
std::vector<Shape> shapes() {
  return {{"normal", [](std::mt19937 &g) { return std::normal_distribution<float>(-5, 3)(g); }},
          {"flat", [](std::mt19937 &g) { return std::normal_distribution<float>(0, 0.01f)(g); }},
          {"wide", [](std::mt19937 &g) { return std::normal_distribution<float>(0, 60)(g); }},
          {"coarse", [](std::mt19937 &g) { return static_cast<float>(g() % 5); }},
          {"equal", [](std::mt19937 &) { return 1.5f; }},
          {"least", [](std::mt19937 &) { return -std::numeric_limits<float>::infinity(); }},
          {"infinite",
           [](std::mt19937 &g) {
             return g() % 9 ? std::normal_distribution<float>(0, 3)(g)
                            : -std::numeric_limits<float>::infinity();
           }},
          {"zeros", [](std::mt19937 &g) { return g() % 2 ? 0.0f : -0.0f; }}};
}

std::vector<SamplingSettings> settings() {
  std::vector<SamplingSettings> list;
  for (float penalty : {1.0f, 1.3f, 0.7f})
    for (float temperature : {0.0f, 1.0f, 0.1f, 1.7f})
      for (int64_t topK :
           {int64_t(0), int64_t(1), int64_t(5), int64_t(40), int64_t(1500), int64_t(1) << 40})
        for (double topP : {1.0, 0.95, 0.5, 1e-9, 0.999999})
          if (temperature != 0 || (topK == 0 && topP == 1))
            list.push_back({penalty, temperature, topK, topP, 5 + list.size()});
  return list;
}

TEST(Sampler, ShardedEqualsUnsharded) {
  for (int64_t vocabulary : {7, 301, 5003}) {
    for (const Shape &shape : shapes()) {
      std::mt19937 generator(static_cast<uint32_t>(vocabulary));
      Logits logits;
      std::vector<SampledRow> rows;
      std::vector<std::vector<int64_t>> seen;
      std::vector<SamplingSettings> all = settings();
      seen.reserve(all.size());
      for (size_t i = 0; i < all.size(); i += vocabulary > 1000 ? 3 : 1) {
        logits.emplace_back();
        for (int64_t t = 0; t < vocabulary; ++t)
          logits.back().push_back(shape.draw(generator));
        std::set<int64_t> tokens;
        for (int t = 0; t < 5; ++t)
          tokens.insert(static_cast<int64_t>(generator()) % vocabulary);
        seen.emplace_back(tokens.begin(), tokens.end());
        rows.push_back({all[i], seen.back(), i, static_cast<int64_t>(10 + i)});
      }
      std::vector<int64_t> wanted;
      for (size_t i = 0; i < rows.size(); ++i)
        wanted.push_back(referenceToken(logits[i], rows[i]));
      for (const Split &split : splitsOf(vocabulary)) {
        SamplingResult chosen = sample(logits, rows, split);
        for (size_t i = 0; i < rows.size(); ++i) {
          const SamplingSettings &setting = rows[i].settings;
          ASSERT_EQ(chosen.tokens[i].token, wanted[i])
              << shape.name << " of " << vocabulary << ", " << split.size() - 1
              << " shards: temperature " << setting.temperature << ", top-k " << setting.topK
              << ", top-p " << setting.topP << ", penalty " << setting.repetitionPenalty;
          ASSERT_FALSE(chosen.tokens[i].isNaN);
        }
      }
    }
  }
}

Logits normalLogits(int64_t vocabulary, float deviation, uint32_t seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  Logits logits(1);
  for (int64_t i = 0; i < vocabulary; ++i)
    logits[0].push_back(normal(generator));
  return logits;
}

TEST(Sampler, RoundsAreFew) {
  auto roundsOf = [](const SamplingSettings &settings, float deviation) {
    Logits logits = normalLogits(20000, deviation);
    return sample(logits, {{settings, {}, 0, 0}}, evenly(20000, 4)).counts;
  };
  EXPECT_EQ(roundsOf({1, 0, 0, 1, 0}, 3).rounds, 1);         // greedy
  EXPECT_EQ(roundsOf({1, 1, 0, 1, 0}, 3).rounds, 1);         // all tokens
  EXPECT_EQ(roundsOf({1, 1, 40, 1, 0}, 3).rounds, 1);        // top-k
  EXPECT_EQ(roundsOf({1, 1, 40, 0.9, 0}, 3).rounds, 1);      // and top-p
  EXPECT_EQ(roundsOf({1, 0.5f, 0, 0.9, 0}, 3).rounds, 2);    // top-p of few
  Sampler::Counts flat = roundsOf({1, 1, 0, 0.95, 0}, 0.1f); // top-p of nearly all tokens
  EXPECT_EQ(flat.rounds, 3);
  EXPECT_EQ(flat.extra, 0);
  Sampler::Counts both = roundsOf({1, 1, 15000, 0.9, 0}, 1.0f); // both, of thousands
  EXPECT_EQ(both.rounds, 4);
  EXPECT_EQ(both.extra, 1);
}

/// Probabilities of Hugging Face's logits processors, with the same algorithm, in f64.
std::vector<double> probabilities(const std::vector<float> &logits, const SamplingSettings &setting,
                                  const std::vector<int64_t> &seen) {
  constexpr double removed = -std::numeric_limits<double>::infinity();
  std::vector<double> scores(logits.begin(), logits.end());
  for (int64_t token : seen) {
    double &score = scores[static_cast<size_t>(token)];
    score = score < 0 ? score * setting.repetitionPenalty : score / setting.repetitionPenalty;
  }
  for (double &score : scores)
    score /= setting.temperature;
  std::vector<size_t> ascending(scores.size());
  std::iota(ascending.begin(), ascending.end(), 0);
  std::sort(ascending.begin(), ascending.end(), [&](size_t a, size_t b) {
    return scores[a] != scores[b] ? scores[a] < scores[b] : a > b;
  });
  for (size_t i = 0; setting.topK && i + static_cast<size_t>(setting.topK) < ascending.size(); ++i)
    scores[ascending[i]] = removed;
  double total = 0, cumulated = 0;
  for (double score : scores)
    total += std::exp(score);
  for (size_t i = 0; setting.topP < 1 && i + 1 < ascending.size(); ++i) {
    cumulated += std::exp(scores[ascending[i]]) / total;
    if (cumulated <= 1 - setting.topP)
      scores[ascending[i]] = removed;
  }
  total = 0;
  for (double score : scores)
    total += std::exp(score);
  std::vector<double> result;
  for (double score : scores)
    result.push_back(std::exp(score) / total);
  return result;
}

TEST(Sampler, FrequenciesAreThoseOfTheDistribution) {
  std::vector<float> logits = {1.2f, 0.3f, -0.5f, 2.1f, 0.3f, -4, 1.9f, 0, -1, 0.7f};
  std::vector<int64_t> seen = {3, 8};
  std::set<size_t> numbersKept;
  for (const SamplingSettings &setting : {SamplingSettings{1, 1, 0, 1, 11},
                                          {1, 0.7f, 0, 1, 12},
                                          {1, 1, 4, 1, 13},
                                          {1, 1, 0, 0.8, 14},
                                          {1, 1.5f, 0, 0.8, 15},
                                          {1, 1, 4, 0.7, 16},
                                          {2, 1, 3, 1, 17},
                                          {1.5f, 2, 0, 0.9, 18}}) {
    std::vector<double> wanted = probabilities(logits, setting, seen);
    constexpr int draws = 20000, steps = 50;
    std::vector<int> frequency(logits.size());
    Logits rows(draws / steps, logits);
    for (int step = 0; step < steps; ++step) {
      std::vector<SampledRow> sampled;
      for (size_t i = 0; i < rows.size(); ++i)
        sampled.push_back({setting, seen, i, step});
      for (const SampledToken &token : sample(rows, sampled, {0, 3, 3, 10}).tokens)
        ++frequency[static_cast<size_t>(token.token)];
    }
    double chiSquare = 0;
    size_t kept = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      double expected = draws * wanted[i];
      kept += expected > 0;
      if (expected > 0)
        chiSquare += std::pow(frequency[i] - expected, 2) / expected;
      else
        EXPECT_EQ(frequency[i], 0) << "token " << i << ", seed " << setting.seed;
    }
    numbersKept.insert(kept);
    // With nine degrees of freedom, chi-square exceeds 27.9 once in a thousand.
    EXPECT_LT(chiSquare, 27.9) << "seed " << setting.seed;
  }
  EXPECT_GE(numbersKept.size(), 4u);
}

/// Unfiltered rows need one reduction of eight bytes each; top-k gathers only shown() tokens.
TEST(Sampler, CommunicationIsMinimal) {
  Logits logits = normalLogits(1000, 2);
  auto rowsOf = [&](const SamplingSettings &setting) {
    std::vector<Counters::Row> rows;
    std::mutex mutex;
    runWorld(4, [&](tpc_context &ctx) {
      WorldRanks ranks(ctx);
      LogitsPiece piece{0,
                        ctx.rank * 250,
                        std::span(logits[0]).subspan(static_cast<size_t>(ctx.rank) * 250, 250),
                        noToken,
                        0,
                        {}};
      SampledRow row{setting, {}, 0, 0};
      Sampler().sample(ranks, {&row, 1}, {&piece, 1});
      std::lock_guard<std::mutex> lock(mutex);
      rows = ctx.counters.rows(ctx.grid);
    });
    return rows;
  };
  for (const SamplingSettings &setting : {SamplingSettings{}, {1.1f, 1, 0, 1, 0}}) {
    auto rows = rowsOf(setting);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].axis, "sampling");
    EXPECT_EQ(rows[0].kind, CollectiveKind::AllReduce);
    EXPECT_EQ(rows[0].count, 1);
    EXPECT_EQ(rows[0].bytes, 8);
  }
  auto rows = rowsOf({1, 1, 40, 0.9, 0});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].kind, CollectiveKind::AllGather);
  EXPECT_EQ(rows[0].count, 1);
  EXPECT_EQ(rows[0].bytes, 4 * 41 * 8);
}

TEST(Sampler, NaNIsReportedForItsRow) {
  Logits logits(3, std::vector<float>(100, 1));
  logits[1][71] = logits[1][90] = NAN;
  for (SamplingSettings setting : {SamplingSettings{},
                                   {1, 1, 0, 1, 0},
                                   {1, 1, 5, 1, 0},
                                   {1, 1, 0, 0.9, 0},
                                   {1.2f, 0.5f, 0, 0.9, 0}})
    for (const Split &split : splitsOf(100)) {
      SamplingResult chosen =
          sample(logits, {{setting, {}, 0, 0}, {setting, {}, 0, 0}, {setting, {}, 0, 0}}, split);
      EXPECT_FALSE(chosen.tokens[0].isNaN);
      EXPECT_TRUE(chosen.tokens[1].isNaN);
      EXPECT_EQ(chosen.tokens[1].token, 71);
      EXPECT_FALSE(chosen.tokens[2].isNaN);
    }
}

TEST(Sampler, RowsAreIndependent) {
  Logits logits = {normalLogits(500, 2, 1)[0], normalLogits(500, 2, 2)[0],
                   normalLogits(500, 2, 3)[0]};
  std::vector<SampledRow> rows = {
      {{1, 1, 0, 0.99, 3}, {}, 4, 9}, {{1, 0, 0, 1, 0}, {}, 0, 0}, {{1, 1, 0, 1, 3}, {}, 4, 9}};
  SamplingResult together = sample(logits, rows, evenly(500, 3));
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(sample({logits[i]}, {rows[i]}, evenly(500, 2)).tokens[0].token,
              together.tokens[i].token);
}

/// Ranks with logits of some rows only (replicas) or without logits (earlier stages).
TEST(Sampler, RanksMayHaveSomeRowsOrNone) {
  Logits logits = {normalLogits(64, 2, 1)[0], normalLogits(64, 2, 2)[0]};
  for (SamplingSettings setting :
       {SamplingSettings{}, {1, 1, 0, 1, 3}, {1, 1, 3, 1, 3}, {1, 2, 0, 0.97, 3}}) {
    std::vector<SampledRow> rows = {{setting, {}, 0, 0}, {setting, {}, 1, 0}};
    auto error = runWorld(5, [&](tpc_context &ctx) {
      std::vector<LogitsPiece> pieces;
      if (ctx.rank > 0) {
        auto row = static_cast<size_t>(ctx.rank - 1) / 2;
        int64_t half = (ctx.rank - 1) % 2 * 32;
        pieces.push_back({static_cast<int64_t>(row),
                          half,
                          std::span(logits[row]).subspan(static_cast<size_t>(half), 32),
                          noToken,
                          0,
                          {}});
      }
      WorldRanks ranks(ctx);
      auto tokens = Sampler().sample(ranks, rows, pieces);
      for (size_t i = 0; i < 2; ++i)
        EXPECT_EQ(tokens[i].token, referenceToken(logits[i], rows[i]));
    });
    EXPECT_EQ(error.value_or(""), "");
  }
}

} // namespace
