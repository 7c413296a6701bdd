//===- Search.cpp - Search for the fastest grid ---------------------------===//

#include "tpc/Plan/Search.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::tpc;

/// Numbers of micro-batches and of chunks that are tried.
static constexpr int64_t microBatches[] = {1,  2,  3,  4,  6,  8,   12,  16,
                                           24, 32, 48, 64, 96, 128, 192, 256};
static constexpr int64_t chunks[] = {1, 2, 3, 4, 6, 8};
/// Maximum number of micro-batches with chunks, whose runs are separate events of the program.
static constexpr int64_t maxScheduled = 64;

/// Maximum number of devices for which all sizes of axes are tried.
static constexpr int64_t maxDense = 64;

/// Relative difference of two times that tables cannot tell apart.
static constexpr double resolution = 0.01;

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

std::string GridChoice::str() const {
  std::string text;
  auto add = [&](const char *name, int64_t number) {
    if (number > 1)
      text += (text.empty() ? "" : ",") + std::string(name) + std::to_string(number);
  };
  if (tensorX > 1)
    text = "tp" + std::to_string(tensorX) + "x" + std::to_string(tp / tensorX);
  else
    add("tp", tp);
  add("pp", pp);
  add("vpp", vpp);
  add("dp", dp);
  add("ep", ep);
  if (etp > 0)
    text += ",etp" + std::to_string(etp);
  if (sp)
    text += ",sp";
  add("mb", mb);
  if (pipelineInside)
    text += ",order=tp-pp-dp";
  return text.empty() ? "tp1" : text;
}

/// Returns the sizes of an axis up to `maximum`. With many devices, only those of at most `bits`
/// significant bits, and the divisors of `divided`.
static std::vector<int64_t> getSizes(const SearchProblem &problem, int64_t maximum, unsigned bits,
                                     int64_t divided) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= maximum; ++size) {
    int64_t significant = size;
    while (significant % 2 == 0)
      significant /= 2;
    if (problem.devices <= maxDense || significant < int64_t(1) << bits || divided % size == 0)
      sizes.push_back(size);
  }
  return sizes;
}

void mlir::tpc::enumerateFamilies(const SearchProblem &problem,
                                  llvm::function_ref<void(const GridChoice &)> visit) {
  int64_t devices = problem.devices;
  std::vector<int64_t> tensor = getSizes(problem, devices, 4, 1);
  std::vector<int64_t> tensor2D = getSizes(problem, devices, 2, 1);
  std::vector<int64_t> stages =
      getSizes(problem, std::min(devices, std::max<int64_t>(1, problem.layers)), 4, problem.layers);
  std::vector<int64_t> experts = getSizes(problem, std::min(devices, problem.experts), 4, 1);
  // Omits sizes of dp that do not reduce the number of samples of the largest replica.
  std::vector<int64_t> replicas;
  int64_t samples = std::numeric_limits<int64_t>::max();
  for (int64_t dp :
       getSizes(problem, std::min(devices, std::max<int64_t>(1, problem.batch)), 4, problem.batch))
    if (int64_t maximum = (problem.batch + dp - 1) / dp; maximum < samples) {
      replicas.push_back(dp);
      samples = maximum;
    }

  auto visitReplicas = [&](GridChoice grid) {
    for (int64_t pp : stages) {
      if (grid.tp * pp > devices)
        break;
      grid.pp = pp;
      for (int64_t dp : replicas) {
        if (grid.tp * pp * dp > devices)
          break;
        grid.dp = dp;
        int64_t groups = grid.getExpertRanks();
        if (grid.getRanks() <= devices && (dp == 1 || dp % groups == 0))
          visit(grid);
      }
    }
  };
  auto visitExperts = [&](const GridChoice &grid) {
    for (int64_t ep : experts) {
      GridChoice next = grid;
      next.ep = ep;
      visitReplicas(next);
      for (next.etp = 1; next.etp < grid.tp && ep > 1; ++next.etp)
        if (grid.tp % next.etp == 0 && ep % next.getExpertGroups() == 0)
          visitReplicas(next);
    }
  };
  for (bool sp : {false, true}) {
    for (int64_t tp : tensor)
      if (GridChoice grid{.tp = tp, .sp = sp}; tp > 1 || !sp)
        visitExperts(grid);
    for (int64_t x : tensor2D)
      for (int64_t y : tensor2D)
        if (x > 1 && y > 1 && x * y <= devices && problem.experts <= 1 && !sp)
          visitReplicas({.tp = x * y, .tensorX = x});
  }
}

void mlir::tpc::enumerateGrids(const SearchProblem &problem, const GridChoice &family,
                               llvm::function_ref<void(const GridChoice &)> visit) {
  GridChoice grid = family;
  int64_t samples = (problem.batch + family.dp - 1) / family.dp;
  // The order tp-pp-dp is tried if pipelines then fit in nodes. With experts, it would separate
  // ranks that have the same tokens.
  bool hasOrders = family.tp * family.pp <= problem.ranksPerNode &&
                   family.getRanks() > problem.ranksPerNode && family.pp > 1 && family.dp > 1 &&
                   family.ep == 1;
  for (int64_t mb : microBatches) {
    bool splitsReplicas = family.dp > 1 && family.getExpertRanks() > 1;
    if (mb > 1 && (family.pp == 1 || mb > samples || splitsReplicas))
      break;
    for (int64_t vpp : chunks) {
      if (vpp > 1 && (family.pp == 1 || mb < family.pp || mb > maxScheduled ||
                      family.pp * vpp > problem.layers))
        break;
      grid.mb = mb;
      grid.vpp = vpp;
      visit(grid);
      if (!hasOrders)
        continue;
      GridChoice inside = grid;
      inside.pipelineInside = true;
      visit(inside);
    }
  }
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

void RefusedGrids::add(const GridChoice &grid, StringRef error) {
  if (++count == 1)
    why = error.str();
  if (examples.size() == maxExamples && !(grid < examples.back()))
    return;
  examples.insert(llvm::upper_bound(examples, grid), grid);
  if (examples.size() > maxExamples)
    examples.pop_back();
}

void SearchResult::refuse(const GridChoice &grid, StringRef error) {
  StringRef line = error.split('\n').first;
  auto found = refused.find(line);
  if (found == refused.end())
    found = refused.try_emplace(line.str()).first;
  found->second.add(grid, error);
}

size_t SearchResult::countRefused() const {
  size_t count = 0;
  for (const auto &[line, grids] : refused)
    count += grids.count;
  return count;
}

namespace {

class Searcher {
public:
  explicit Searcher(const SearchProblem &problem) : problem(problem) {}
  SearchResult run();

private:
  /// A family, or a grid.
  struct Candidate {
    double objective; // lower bound
    int64_t memory;   // lower bound
    GridChoice grid;
    size_t numBounds; // bounds of the family that are computed
    bool isGrid;
    double priority = 0; // the objective; in a limited search, an estimate that is not less
    /// Reversed, for a heap with the least priority first.
    bool operator<(const Candidate &o) const {
      return std::tie(o.priority, o.grid, o.isGrid) < std::tie(priority, grid, isGrid);
    }
  };

  int64_t getCopies(const GridChoice &grid) const {
    return problem.goal == Goal::Throughput ? problem.devices / grid.getRanks() : 1;
  }
  double getWeight(const GridChoice &grid) const {
    return problem.goal == Goal::Cost ? double(grid.getRanks()) : 1 / double(getCopies(grid));
  }
  size_t count(const GridChoice &family) const {
    size_t number = 0;
    enumerateGrids(problem, family, [&](const GridChoice &) { ++number; });
    return number;
  }
  bool isLimited() const { return problem.maxEvaluations != std::numeric_limits<size_t>::max(); }
  void push(Candidate next, const GridBound &bound);
  void expand(const Candidate &family);
  void evaluate(const Candidate &candidate);

  const SearchProblem &problem;
  SearchResult result;
  std::vector<Candidate> heap;
};

} // namespace

/// Adds a candidate with the maximum of its previous bound and `bound`.
void Searcher::push(Candidate next, const GridBound &bound) {
  next.objective = std::max(next.objective, bound.seconds * getWeight(next.grid));
  next.memory = std::max(next.memory, bound.memory);
  next.priority = next.objective;
  // The bound of a grid with chunks has no idle time. With equal chunks, ranks idle for this share.
  if (const GridChoice &grid = next.grid; isLimited() && next.isGrid && grid.vpp > 1)
    next.priority *= 1 + double(grid.pp - 1) / double(grid.mb * grid.vpp);
  auto forEach = [&](llvm::function_ref<void(const GridChoice &)> visit) {
    next.isGrid ? visit(next.grid) : enumerateGrids(problem, next.grid, visit);
  };
  if (!bound.refused.empty() && !problem.isExhaustive) {
    forEach([&](const GridChoice &one) { result.refuse(one, bound.refused); });
  } else if (next.memory > problem.getMemory(next.grid) && !problem.isExhaustive) {
    forEach([&](const GridChoice &) { ++result.prunedByMemory; });
  } else {
    heap.push_back(next);
    std::push_heap(heap.begin(), heap.end());
  }
}

void Searcher::expand(const Candidate &family) {
  Candidate next = family;
  if (next.numBounds < problem.familyBounds.size()) {
    GridBound bound = problem.familyBounds[next.numBounds](next.grid);
    ++next.numBounds;
    return push(next, bound);
  }
  next.isGrid = true;
  enumerateGrids(problem, family.grid, [&](const GridChoice &grid) {
    next.grid = grid;
    push(next, problem.getBound ? problem.getBound(grid) : GridBound());
  });
}

void Searcher::evaluate(const Candidate &candidate) {
  const GridChoice &grid = candidate.grid;
  RankedGrid row{grid, problem.evaluate(grid), problem.getMemory(grid), getCopies(grid),
                 getWeight(grid)};
  if (!row.cost.refused.empty()) {
    result.refuse(grid, row.cost.refused);
    return;
  }
  ++result.evaluated;
  row.objective = row.cost.step.seconds.total() * row.weight;
  if (problem.isExhaustive)
    result.objectives.push_back({grid, row.objective});
  if (row.objective > 0)
    result.secondsBoundRatio =
        std::max(result.secondsBoundRatio, candidate.objective / row.objective);
  if (int64_t need = row.cost.memory.getNeed(); need > 0)
    result.memoryBoundRatio =
        std::max(result.memoryBoundRatio, double(candidate.memory) / double(need));
  if (!row.fits()) {
    result.tooLarge.push_back(std::move(row));
    return;
  }
  auto isBetter = [](const RankedGrid &a, const RankedGrid &b) {
    return a.objective != b.objective ? a.objective < b.objective : a.grid < b.grid;
  };
  result.best.insert(llvm::upper_bound(result.best, row, isBetter), std::move(row));
  if (result.best.size() > SearchResult::numBest)
    result.best.pop_back();
}

SearchResult Searcher::run() {
  enumerateFamilies(problem, [&](const GridChoice &family) {
    result.enumerated += count(family);
    push({0, 0, family, 1, false}, problem.familyBounds[0](family));
  });
  auto isPruned = [&](const Candidate &candidate) {
    return !problem.isExhaustive && result.best.size() == SearchResult::numBest &&
           candidate.objective > result.best.back().objective;
  };
  auto countGrids = [&](const Candidate &candidate) {
    return candidate.isGrid ? 1 : count(candidate.grid);
  };
  while (!heap.empty()) {
    bool isOver = result.evaluated >= problem.maxEvaluations;
    // Without a limit, all other candidates have larger bounds.
    if (isOver || (isPruned(heap.front()) && !isLimited())) {
      result.unexploredObjective = isOver ? std::numeric_limits<double>::infinity() : 0;
      for (const Candidate &rest : heap) {
        (isPruned(rest) ? result.prunedByTime : result.unexplored) += countGrids(rest);
        if (isOver)
          result.unexploredObjective = std::min(result.unexploredObjective, rest.objective);
      }
      break;
    }
    std::pop_heap(heap.begin(), heap.end());
    Candidate next = heap.back();
    heap.pop_back();
    if (isPruned(next))
      result.prunedByTime += countGrids(next);
    else
      next.isGrid ? evaluate(next) : expand(next);
  }
  auto excess = [](const RankedGrid &row) { return row.cost.memory.getNeed() - row.memory; };
  llvm::sort(result.tooLarge, [&](const RankedGrid &a, const RankedGrid &b) {
    return std::make_pair(excess(a), a.grid) < std::make_pair(excess(b), b.grid);
  });
  return std::move(result);
}

SearchResult mlir::tpc::searchGrids(const SearchProblem &problem) {
  return Searcher(problem).run();
}

Comparison mlir::tpc::compareGrids(const RankedGrid &best, const RankedGrid &other,
                                   const ::tpc::Machine::Errors &errors) {
  Comparison comparison;
  std::array<double, 5> a = getCauses(best.cost.step.seconds),
                        b = getCauses(other.cost.step.seconds);
  ::tpc::Machine::Errors wide = errors;
  wide.tensor =
      std::max({errors.tensor, best.cost.step.derivedError, other.cost.step.derivedError});
  std::array<double, 5> error = getCauses(wide);
  for (size_t i = 0; i < a.size(); ++i) {
    comparison.difference[i] = b[i] * other.weight - a[i] * best.weight;
    comparison.total += comparison.difference[i];
    comparison.error += std::abs(comparison.difference[i]) * error[i];
  }
  comparison.error += resolution * best.objective;
  return comparison;
}
