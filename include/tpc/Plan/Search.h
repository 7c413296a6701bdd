//===- Search.h - Search for the fastest grid -------------------*- C++ -*-===//
//
// Enumerates grids of at most the given number of devices and evaluates them in the order of lower
// bounds of their objectives, until no other grid can be among the best. A family is a set of grids
// that differ only in micro-batches, chunks (mb, vpp), and the order of dp and pp. Bounds are
// computed in stages: cheap and loose ones for all families, more expensive and tighter ones only
// for families, and then grids, that may still be among the best. All orders and ties are
// deterministic. The search uses only grids and numbers; callbacks compile and estimate.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_PLAN_SEARCH_H
#define TPC_PLAN_SEARCH_H

#include "tpc/Cost/StepCost.h"
#include "tpc/Plan/RankMemory.h"

#include <functional>
#include <limits>

namespace mlir::tpc {

/// A grid: --megatron-shard without gpus-per-node.
struct GridChoice {
  int64_t tp = 1, pp = 1, dp = 1, mb = 1;
  bool sp = false;
  int64_t vpp = 1;
  int64_t tensorX = 1; // first size of a 2-D tp (2 in tp2x4, where tp is 8); 1: one axis
  int64_t ep = 1;
  /// Ranks of tp that split one expert, a divisor of tp; ep is a multiple of tp / etp. 0: all.
  int64_t etp = 0;
  bool pipelineInside = false; // order tp-pp-dp; false: tp-dp-pp

  /// Returns the number of groups of ranks of tp that have different experts.
  int64_t getExpertGroups() const { return etp > 0 ? tp / etp : 1; }
  /// Returns the number of ranks among which the experts of one rank of tp are divided. If dp > 1,
  /// these ranks are replicas (ranks of dp), so they do not increase getRanks().
  int64_t getExpertRanks() const { return ep / getExpertGroups(); }
  int64_t getRanks() const { return tp * pp * dp * (dp == 1 ? getExpertRanks() : 1); }
  std::string str() const;
  auto getKey() const {
    return std::make_tuple(getRanks(), tp, tensorX, pp, vpp, dp, ep, etp, sp, mb, pipelineInside);
  }
  bool operator<(const GridChoice &o) const { return getKey() < o.getKey(); }
};

/// Goal of the search. Latency: the time of a step. Throughput: the time of a step, divided by the
/// number of copies of the grid that the devices have room for. Cost: the time of a step, times the
/// number of ranks (device-seconds).
enum class Goal { Latency, Throughput, Cost };

/// Costs of one grid.
struct GridCost {
  std::string refused; // the compiler's or the machine's error; empty if the grid is valid
  RankMemory memory;
  StepCost step;                          // a decode step, if `prompt` has a value
  std::vector<CollectiveRow> collectives; // of `prompt` if it has a value, else of `step`
  std::optional<StepCost> prompt = {};    // the step of a prompt in a generation
};

/// Lower bounds of a grid's step and of the bytes of its worst-case rank.
struct GridBound {
  double seconds = 0;
  int64_t memory = 0;
  std::string refused; // error of all grids of the family, or of the grid
};

struct SearchProblem {
  int64_t devices = 1;
  int64_t batch = 1;   // maximum dp · mb
  int64_t layers = 1;  // maximum pp · vpp
  int64_t experts = 1; // maximum ep
  /// Devices of a node; 0: all. If replicas of pipelines are in several nodes, both orders of dp
  /// and pp are tried.
  int64_t ranksPerNode = 0;
  Goal goal = Goal::Latency;
  /// Evaluates all grids, and prunes none.
  bool isExhaustive = false;
  /// Maximum number of evaluated grids.
  size_t maxEvaluations = std::numeric_limits<size_t>::max();
  std::function<int64_t(const GridChoice &)> getMemory; // bytes that a rank may use
  /// Bounds of a family, the cheapest first. The first is computed for all families.
  std::vector<std::function<GridBound(const GridChoice &)>> familyBounds;
  std::function<GridBound(const GridChoice &)> getBound; // of a grid; optional
  std::function<GridCost(const GridChoice &)> evaluate;
};

struct RankedGrid {
  GridChoice grid;
  GridCost cost;
  int64_t memory = 0; // bytes that a rank may use
  int64_t copies = 1; // with Goal::Throughput: copies on the devices
  double weight = 1;  // objective per second of a step
  double objective = 0;
  bool fits() const { return cost.memory.getNeed() <= memory; }
};

/// Grids that are refused with the same first line of the error.
struct RefusedGrids {
  static constexpr size_t maxExamples = 3;
  std::string why;                  // error of one of them
  size_t count = 0;                 // number of grids
  std::vector<GridChoice> examples; // the first in the order of grids, at most maxExamples

  void add(const GridChoice &grid, StringRef error);
};

struct SearchResult {
  static constexpr size_t numBest = 10;
  std::vector<RankedGrid> best;     // that fit, the best first, at most numBest
  std::vector<RankedGrid> tooLarge; // the grids that do not fit, by needed bytes
  std::map<std::string, RefusedGrids, std::less<>> refused; // by the first line of the error
  size_t enumerated = 0, prunedByMemory = 0, prunedByTime = 0, evaluated = 0; // numbers of grids
  size_t unexplored = 0;                                 // grids that remained after maxEvaluations
  double unexploredObjective = 0;                        // lower bound of their objectives
  std::vector<std::pair<GridChoice, double>> objectives; // of all grids of an exhaustive search
  /// Maximum of bound divided by estimate over all evaluated grids, of seconds and of bytes.
  double secondsBoundRatio = 0, memoryBoundRatio = 0;

  void refuse(const GridChoice &grid, StringRef error);
  size_t countRefused() const;
};

/// Calls `visit` with the first grid (mb1, no chunks) of each family, in a fixed order. Up to 64
/// devices, tp, pp and ep have all sizes. For more devices, sizes above 16 have at most four
/// significant bits (axes of a 2-D tp above 4: two), or divide the layers (pp) or the batch (dp).
/// dp omits sizes that do not reduce the maximum number of samples of a replica.
void enumerateFamilies(const SearchProblem &problem,
                       llvm::function_ref<void(const GridChoice &)> visit);
/// Calls `visit` with all grids of a family, which is given by its first grid.
void enumerateGrids(const SearchProblem &problem, const GridChoice &family,
                    llvm::function_ref<void(const GridChoice &)> visit);
SearchResult searchGrids(const SearchProblem &problem);

/// Difference of two estimates: `other` minus `best`, weighted by the objective. `error` is the sum
/// over causes of |difference| times the machine's relative error, plus 1% of the best objective.
/// The relative error of collectives is at least StepCost::derivedError of both grids.
struct Comparison {
  std::array<double, 5> difference; // by cause, in the order of causeNames (StepCost.h)
  double total = 0, error = 0;
  bool isDecided() const { return std::abs(total) > error; }
};
Comparison compareGrids(const RankedGrid &best, const RankedGrid &other,
                        const ::tpc::Machine::Errors &errors);

} // namespace mlir::tpc

#endif // TPC_PLAN_SEARCH_H
