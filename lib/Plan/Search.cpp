//===- Search.cpp - Search for the fastest grid ---------------------------===//

#include "tpc/Plan/Search.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;

/// Numbers of micro-batches that are tried.
static constexpr int64_t microBatches[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

/// Relative difference of two times that tables cannot tell apart.
static constexpr double resolution = 0.01;

std::string GridChoice::str() const {
  std::string text;
  auto add = [&](const char *name, int64_t number) {
    if (number > 1)
      text += (text.empty() ? "" : ",") + std::string(name) + std::to_string(number);
  };
  add("tp", tp);
  add("pp", pp);
  add("dp", dp);
  if (sp)
    text += ",sp";
  add("mb", mb);
  return text.empty() ? "tp1" : text;
}

std::vector<GridChoice> mlir::tpc::enumerateGrids(const SearchProblem &problem) {
  std::vector<GridChoice> grids;
  for (int64_t tp = 1; tp <= problem.devices; ++tp)
    for (int64_t pp = 1; tp * pp <= problem.devices && pp <= std::max<int64_t>(1, problem.layers);
         ++pp)
      for (int64_t dp = 1; tp * pp * dp <= problem.devices && dp <= problem.batch; ++dp) {
        // The replica with the most samples is not faster than with one replica less.
        int64_t samples = (problem.batch + dp - 1) / dp;
        if (dp > 1 && samples == (problem.batch + dp - 2) / (dp - 1))
          continue;
        for (bool sp : {false, true}) {
          if (sp && tp == 1)
            continue;
          for (int64_t mb : microBatches)
            if (mb == 1 || (pp > 1 && mb <= samples))
              grids.push_back({tp, pp, dp, mb, sp});
        }
      }
  llvm::sort(grids);
  return grids;
}

SearchResult mlir::tpc::searchGrids(const SearchProblem &problem) {
  SearchResult result;
  std::vector<std::pair<double, GridChoice>> queue;
  auto getCopies = [&](const GridChoice &grid) {
    return problem.goal == Goal::Throughput ? problem.devices / grid.getRanks() : 1;
  };
  auto getWeight = [&](const GridChoice &grid) {
    return problem.goal == Goal::Cost ? double(grid.getRanks()) : 1 / double(getCopies(grid));
  };
  for (const GridChoice &grid : enumerateGrids(problem)) {
    ++result.enumerated;
    if (problem.getLeastMemory(grid) > problem.getMemory(grid)) {
      ++result.prunedByMemory;
      continue;
    }
    queue.push_back({problem.getLeastSeconds(grid) * getWeight(grid), grid});
  }
  // The most promising grids first, so that their times prune the others.
  llvm::sort(queue);
  auto isBetter = [](const RankedGrid &a, const RankedGrid &b) {
    return a.objective != b.objective ? a.objective < b.objective : a.grid < b.grid;
  };
  for (const auto &[bound, grid] : queue) {
    if (result.best.size() == SearchResult::numBest && bound > result.best.back().objective) {
      ++result.prunedByTime;
      continue;
    }
    RankedGrid row{grid, problem.evaluate(grid), problem.getMemory(grid), getCopies(grid),
                   getWeight(grid)};
    if (!row.cost.refused.empty()) {
      result.refused.push_back({grid, row.cost.refused});
      continue;
    }
    ++result.simulated;
    row.objective = row.cost.step.seconds.total() * row.weight;
    if (!row.fits()) {
      result.tooLarge.push_back(std::move(row));
      continue;
    }
    result.best.insert(llvm::upper_bound(result.best, row, isBetter), std::move(row));
    if (result.best.size() > SearchResult::numBest)
      result.best.pop_back();
  }
  auto excess = [](const RankedGrid &row) { return row.cost.memory.getNeed() - row.memory; };
  llvm::sort(result.tooLarge, [&](const RankedGrid &a, const RankedGrid &b) {
    return std::make_pair(excess(a), a.grid) < std::make_pair(excess(b), b.grid);
  });
  return result;
}

Comparison mlir::tpc::compareGrids(const RankedGrid &best, const RankedGrid &other,
                                   const ::tpc::Machine::Errors &errors) {
  Comparison comparison;
  std::array<double, 5> a = getCauses(best.cost.step.seconds),
                        b = getCauses(other.cost.step.seconds), error = getCauses(errors);
  for (size_t i = 0; i < a.size(); ++i) {
    comparison.difference[i] = b[i] * other.weight - a[i] * best.weight;
    comparison.total += comparison.difference[i];
    comparison.error += std::abs(comparison.difference[i]) * error[i];
  }
  comparison.error += resolution * best.objective;
  return comparison;
}
