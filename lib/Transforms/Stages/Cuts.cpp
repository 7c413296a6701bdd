//===- Cuts.cpp - Balanced division of a chain into stages ----------------===//

#include "tpc/Transforms/Stages/Cuts.h"

#include <algorithm>
#include <limits>

std::optional<std::vector<size_t>>
mlir::tpc::chooseCuts(size_t segments, size_t stages,
                      const std::function<double(size_t, size_t)> &cost, double slack,
                      const std::function<double(size_t, size_t)> &balanceCost,
                      const std::function<bool(size_t, size_t)> &mayBegin) {
  if (stages == 0 || segments < stages)
    return std::nullopt;
  constexpr double infinity = std::numeric_limits<double>::infinity();

  std::vector<std::vector<double>> costs(segments, std::vector<double>(segments + 1, infinity));
  for (size_t i = 0; i < segments; ++i)
    for (size_t j = i + 1; j <= segments; ++j)
      costs[i][j] = cost(i, j);

  // best[s][j]: minimum value for the first j segments in s stages.
  auto solve = [&](auto combine, std::vector<std::vector<size_t>> *choice) {
    std::vector<std::vector<double>> best(stages + 1, std::vector<double>(segments + 1, infinity));
    best[0][0] = 0;
    for (size_t s = 1; s <= stages; ++s)
      for (size_t j = s; j <= segments; ++j)
        for (size_t i = s - 1; i < j; ++i) {
          if (mayBegin && s > 1 && !mayBegin(s - 1, i))
            continue;
          double value = combine(best[s - 1][i], i, j);
          if (value < best[s][j]) {
            best[s][j] = value;
            if (choice)
              (*choice)[s][j] = i;
          }
        }
    return best[stages][segments];
  };
  double largest =
      solve([&](double a, size_t i, size_t j) { return std::max(a, costs[i][j]); }, nullptr);
  if (largest == infinity)
    return std::nullopt;
  // Even with zero slack and rounding, the optimum must be within the limit.
  double limit = largest * (1 + std::max(slack, 1e-9));
  std::vector<std::vector<size_t>> choice(stages + 1, std::vector<size_t>(segments + 1));
  solve(
      [&](double a, size_t i, size_t j) {
        double b = balanceCost ? balanceCost(i, j) : costs[i][j];
        return costs[i][j] > limit ? infinity : a + b * b;
      },
      &choice);

  std::vector<size_t> cuts(stages - 1);
  size_t end = segments;
  for (size_t s = stages; s > 1; --s)
    cuts[s - 2] = end = choice[s][end];
  return cuts;
}
