//===- CutsTest.cpp - Chosen stage cuts against all others ----------------===//

#include "tpc/Transforms/Stages/Cuts.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using mlir::tpc::chooseCuts;

namespace {

using Costs = std::vector<double>;

double sum(const Costs &costs, size_t begin, size_t end) {
  double total = 0;
  for (size_t i = begin; i < end; ++i)
    total += costs[i];
  return total;
}

double slowest(const Costs &costs, const std::vector<size_t> &cuts) {
  double worst = 0;
  size_t begin = 0;
  for (size_t cut : cuts) {
    worst = std::max(worst, sum(costs, begin, cut));
    begin = cut;
  }
  return std::max(worst, sum(costs, begin, costs.size()));
}

/// Returns the minimum over all cuts of the slowest stage's cost.
double bruteForce(const Costs &costs, size_t stages) {
  double best = 1e300;
  std::vector<size_t> cuts;
  std::function<void(size_t)> extend = [&](size_t from) {
    if (cuts.size() + 1 == stages) {
      best = std::min(best, slowest(costs, cuts));
      return;
    }
    for (size_t cut = from; cut < costs.size(); ++cut) {
      cuts.push_back(cut);
      extend(cut + 1);
      cuts.pop_back();
    }
  };
  extend(1);
  return best;
}

TEST(Cuts, AreOptimal) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> cost(0, 1);
  for (size_t pieces = 1; pieces <= 10; ++pieces)
    for (size_t stages = 1; stages <= pieces; ++stages)
      for (int repeat = 0; repeat < 10; ++repeat) {
        Costs costs(pieces);
        for (double &c : costs)
          c = cost(random);
        auto cuts =
            chooseCuts(pieces, stages, [&](size_t i, size_t j) { return sum(costs, i, j); });
        ASSERT_TRUE(cuts);
        ASSERT_EQ(cuts->size() + 1, stages);
        ASSERT_TRUE(std::is_sorted(cuts->begin(), cuts->end()));
        EXPECT_NEAR(slowest(costs, *cuts), bruteForce(costs, stages), 1e-12);
      }
}

TEST(Cuts, CountAnExpensiveHead) {
  // Eight layers cost 1 each and the head costs 4, so the last stage gets fewer layers.
  Costs costs(9, 1);
  costs.back() = 4;
  auto cuts = chooseCuts(9, 3, [&](size_t i, size_t j) { return sum(costs, i, j); });
  EXPECT_EQ(*cuts, (std::vector<size_t>{4, 8}));
}

TEST(Cuts, AreEvenAmongEquals) {
  // The head alone is the slowest stage. The rest is still divided evenly.
  Costs costs = {1, 1, 1, 1, 1, 1, 100};
  auto cuts = chooseCuts(7, 3, [&](size_t i, size_t j) { return sum(costs, i, j); });
  EXPECT_EQ(*cuts, (std::vector<size_t>{3, 6}));
}

TEST(Cuts, BalanceWorkThatIsNotRepeated) {
  // Each stage that contains one of the first four segments costs 3 more, which is repeated work.
  // If this counts, the most even stages have two segments, two segments, and the head. If not,
  // they have one segment, two segments, and one segment with the head.
  Costs costs = {1, 1, 1, 1, 0.5};
  auto own = [&](size_t i, size_t j) { return sum(costs, i, j); };
  auto all = [&](size_t i, size_t j) { return own(i, j) + (i < 4 ? 3 : 0); };
  EXPECT_EQ(*chooseCuts(5, 3, all, 0.01), (std::vector<size_t>{2, 4}));
  EXPECT_EQ(*chooseCuts(5, 3, all, 0.01, own), (std::vector<size_t>{1, 3}));
}

TEST(Cuts, BeginOnlyAtAllowedSegments) {
  auto cost = [](size_t i, size_t j) { return double(j - i); };
  auto only = [&](size_t group, size_t piece) {
    return chooseCuts(6, 3, cost, 0, {},
                      [=](size_t g, size_t i) { return g != group || i == piece; });
  };
  EXPECT_EQ(*only(1, 1), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(*only(2, 3), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(*only(2, 5), (std::vector<size_t>{2, 5}));
  EXPECT_FALSE(only(1, 5));
}

TEST(Cuts, NeedEnoughSegments) {
  EXPECT_FALSE(chooseCuts(2, 3, [](size_t, size_t) { return 1.0; }));
  EXPECT_FALSE(chooseCuts(0, 1, [](size_t, size_t) { return 1.0; }));
}

} // namespace
