//===- SearchTest.cpp - The search, compared with exhaustive search -------===//

#include "tpc/Plan/Search.h"
#include "tpc/Support/ShardSpec.h"

#include "gtest/gtest.h"
#include <random>

using namespace mlir::tpc;

namespace {

/// A problem with random times and memory. The bounds are below them by random amounts.
SearchProblem makeProblem(unsigned seed) {
  std::mt19937 random(seed);
  SearchProblem problem;
  problem.devices = 1 + random() % 12;
  problem.batch = 1 + random() % 9;
  problem.layers = 1 + random() % 5;
  problem.experts = random() % 3 == 0 ? 4 : 1;
  problem.goal = std::array{Goal::Latency, Goal::Throughput, Goal::Cost}[random() % 3];
  int64_t available = 20 + random() % 100;
  auto draw = [seed](const GridChoice &grid, const char *what) {
    std::seed_seq seq{size_t(seed), std::hash<std::string>()(grid.str() + what)};
    std::mt19937 own(seq);
    return double(1 + own() % 1000);
  };
  problem.getMemory = [=](const GridChoice &) { return available; };
  auto need = [=](const GridChoice &grid) {
    return int64_t(draw(grid, "memory") / double(grid.tp * grid.pp));
  };
  // Few distinct times, so that there are ties.
  auto seconds = [=](const GridChoice &grid) {
    return std::ceil(draw(grid, "time") / 100) / double(grid.getRanks());
  };
  // Three levels of bounds; those of a family are below those of all its grids.
  auto bound = [=](const GridChoice &grid, double share) {
    return GridBound{seconds(grid) * share, int64_t(double(need(grid)) * share), ""};
  };
  auto boundFamily = [=](const GridChoice &family, const char *what) {
    GridBound least{1e9, INT64_MAX, ""};
    enumerateGrids(problem, family, [&](const GridChoice &grid) {
      GridBound one = bound(grid, draw(family, what) / 1000);
      least.seconds = std::min(least.seconds, one.seconds);
      least.memory = std::min(least.memory, one.memory);
    });
    return least;
  };
  problem.familyBounds = {[=](const GridChoice &grid) { return boundFamily(grid, "share"); }};
  if (random() % 2)
    problem.familyBounds.push_back(
        [=](const GridChoice &grid) { return boundFamily(grid, "tight"); });
  if (random() % 2)
    problem.getBound = [=](const GridChoice &grid) {
      return bound(grid, draw(grid, "share") / 1000);
    };
  problem.evaluate = [=](const GridChoice &grid) {
    GridCost cost;
    if (draw(grid, "refused") < 100)
      cost.refused = "no";
    cost.memory.weights = need(grid);
    cost.step.seconds.compute = seconds(grid);
    return cost;
  };
  return problem;
}

std::vector<GridChoice> listGrids(const SearchProblem &problem) {
  std::vector<GridChoice> grids;
  enumerateFamilies(problem, [&](const GridChoice &family) {
    enumerateGrids(problem, family, [&](const GridChoice &grid) { grids.push_back(grid); });
  });
  return grids;
}

TEST(Search, EqualsExhaustiveSearch) {
  unsigned pruned = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SearchProblem problem = makeProblem(seed);
    std::vector<std::pair<double, GridChoice>> all;
    for (const GridChoice &grid : listGrids(problem)) {
      GridCost cost = problem.evaluate(grid);
      EXPECT_LE(grid.getRanks(), problem.devices);
      double weight = problem.goal == Goal::Latency ? 1
                      : problem.goal == Goal::Cost  ? double(grid.getRanks())
                                                    : 1 / double(problem.devices / grid.getRanks());
      if (cost.refused.empty() && cost.memory.getNeed() <= problem.getMemory(grid))
        all.push_back({cost.step.seconds.total() * weight, grid});
    }
    llvm::sort(all);
    SearchResult result = searchGrids(problem);
    ASSERT_EQ(result.best.size(), std::min(all.size(), SearchResult::numBest)) << seed;
    for (size_t i = 0; i < result.best.size(); ++i) {
      EXPECT_EQ(result.best[i].objective, all[i].first) << seed;
      EXPECT_EQ(result.best[i].grid.str(), all[i].second.str()) << seed;
    }
    EXPECT_EQ(result.enumerated, result.prunedByMemory + result.prunedByTime +
                                     result.countRefused() + result.evaluated);
    EXPECT_LE(result.secondsBoundRatio, 1);
    EXPECT_LE(result.memoryBoundRatio, 1);
    pruned += result.prunedByTime;
    problem.isExhaustive = true;
    SearchResult exhaustive = searchGrids(problem);
    EXPECT_EQ(exhaustive.evaluated + exhaustive.countRefused(), exhaustive.enumerated);
    for (auto [a, b] : llvm::zip_equal(exhaustive.best, result.best))
      EXPECT_EQ(a.grid.str(), b.grid.str());
  }
  EXPECT_GT(pruned, 30u);
}

TEST(Search, EnumeratesGridsThatAreNoPowersOfTwo) {
  SearchProblem problem;
  problem.devices = 6;
  problem.batch = 6;
  problem.layers = 3;
  std::set<std::string> grids;
  for (const GridChoice &grid : listGrids(problem))
    EXPECT_TRUE(grids.insert(grid.str()).second) << grid.str();
  for (const char *text : {"tp1", "tp3", "tp5,sp", "tp3,dp2", "pp3,mb3", "tp2,pp3,mb6", "dp6"})
    EXPECT_TRUE(grids.count(text)) << text;
  // Excluded: four or five replicas, one of which has two of six samples, as with three; more
  // stages than layers; more ranks than devices; micro-batches of one stage.
  for (const char *text : {"dp4", "dp5", "pp4", "tp7", "mb2"})
    EXPECT_FALSE(grids.count(text)) << text;
}

TEST(Search, ThinsOutSizesOfManyDevices) {
  SearchProblem problem;
  problem.devices = 16384;
  problem.batch = 2100;
  problem.layers = 126;
  size_t families = 0;
  std::set<int64_t> tp, pp, dp;
  enumerateFamilies(problem, [&](const GridChoice &grid) {
    ++families;
    EXPECT_LE(grid.getRanks(), problem.devices);
    tp.insert(grid.tp);
    pp.insert(grid.pp);
    dp.insert(grid.dp);
  });
  EXPECT_LT(families, 1000000u);
  for (int64_t size : {1, 7, 8, 12, 13, 26, 104, 16384})
    EXPECT_TRUE(tp.count(size)) << size;
  EXPECT_FALSE(tp.count(17));
  EXPECT_TRUE(pp.count(21) && pp.count(63) && pp.count(126)) << "divisors of the layers";
  EXPECT_TRUE(dp.count(2100) && dp.count(525)) << "divisors of the batch";
}

TEST(Search, TriesOrdersAndSplitsOfExperts) {
  SearchProblem problem;
  problem.devices = 16;
  problem.batch = problem.layers = 4;
  problem.experts = 4;
  std::set<std::string> grids;
  auto enumerate = [&] {
    grids.clear();
    enumerateFamilies(problem, [&](const GridChoice &family) {
      enumerateGrids(problem, family, [&](const GridChoice &grid) {
        EXPECT_TRUE(grids.insert(grid.str()).second) << grid.str();
        std::string error;
        EXPECT_TRUE(::tpc::ShardSpec::parse(grid.str(), error)) << error;
      });
    });
  };
  enumerate();
  for (const char *grid : {"tp4,ep2,etp2", "tp4,ep4,etp2", "tp4,ep4,etp1", "tp2,dp2,ep4,etp1"})
    EXPECT_TRUE(grids.count(grid)) << grid;
  EXPECT_FALSE(grids.count("tp4,ep2,etp1"));
  EXPECT_FALSE(grids.count("pp2,dp2,order=tp-pp-dp"));
  problem.ranksPerNode = 2;
  enumerate();
  EXPECT_TRUE(grids.count("pp2,dp2") && grids.count("pp2,dp2,order=tp-pp-dp"));
  for (const char *grid :
       {"pp2,order=tp-pp-dp", "dp2,order=tp-pp-dp", "pp2,dp2,ep2,order=tp-pp-dp"})
    EXPECT_FALSE(grids.count(grid)) << grid;
}

TEST(Search, StopsAfterTheMostPromisingGrids) {
  SearchProblem problem = makeProblem(11);
  problem.maxEvaluations = 2;
  problem.devices = 16;
  SearchResult result = searchGrids(problem);
  EXPECT_EQ(result.evaluated, 2u);
  EXPECT_GT(result.unexplored, 0u);
  EXPECT_EQ(result.enumerated, result.prunedByMemory + result.prunedByTime + result.countRefused() +
                                   result.evaluated + result.unexplored);
}

TEST(Search, ComparesByCause) {
  RankedGrid a, b;
  a.cost.step.seconds = {1, 2, 3, 4, 5};
  b.cost.step.seconds = {2, 2, 2, 4, 5.5};
  a.objective = a.cost.step.seconds.total();
  ::tpc::Machine::Errors errors;
  errors.compute = errors.memory = errors.launch = errors.tensor = errors.pipeline = 0.1;
  Comparison gap = compareGrids(a, b, errors);
  EXPECT_NEAR(gap.total, 0.5, 1e-12);
  EXPECT_NEAR(gap.error, 0.1 * (1 + 1 + 0.5) + 0.01 * 15, 1e-12);
  EXPECT_TRUE(gap.isDecided());
  errors.launch = 0.5;
  EXPECT_FALSE(compareGrids(a, b, errors).isDecided());
}

} // namespace
