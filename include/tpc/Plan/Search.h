//===- Search.h - Search for the fastest grid -------------------*- C++ -*-===//
//
// Enumerates grids of at most the given number of devices, rejects those that cannot fit or cannot
// be among the best by lower bounds, and evaluates the others. The order of evaluation and all ties
// are deterministic. The search knows grids and numbers only; callbacks compile and estimate.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_PLAN_SEARCH_H
#define TPC_PLAN_SEARCH_H

#include "tpc/Cost/StepCost.h"
#include "tpc/Plan/RankMemory.h"

#include <functional>

namespace mlir::tpc {

/// A grid: --megatron-shard without gpus-per-node.
struct GridChoice {
  int64_t tp = 1, pp = 1, dp = 1, mb = 1;
  bool sp = false;

  int64_t getRanks() const { return tp * pp * dp; }
  std::string str() const;
  bool operator<(const GridChoice &o) const {
    return std::make_tuple(getRanks(), tp, pp, dp, sp, mb) <
           std::make_tuple(o.getRanks(), o.tp, o.pp, o.dp, o.sp, o.mb);
  }
};

/// Goal of the search. Latency: the time of a step. Throughput: the time of a step, divided by the
/// number of copies of the grid that the devices have room for. Cost: the time of a step, times the
/// number of ranks (device-seconds).
enum class Goal { Latency, Throughput, Cost };

/// Costs of one grid.
struct GridCost {
  std::string refused; // the compiler's or the machine's error; empty if the grid exists
  RankMemory memory;
  StepCost step;                          // a decode step, if `prompt` has a value
  std::vector<CollectiveRow> collectives; // of the step of the shape
  std::optional<StepCost> prompt = {};    // the step of a prompt in a generation
};

struct SearchProblem {
  int64_t devices = 1;
  int64_t batch = 1;  // maximum dp · mb
  int64_t layers = 1; // maximum pp
  Goal goal = Goal::Latency;
  std::function<int64_t(const GridChoice &)> getMemory;      // bytes that a rank may use
  std::function<int64_t(const GridChoice &)> getLeastMemory; // lower bound of bytes of a rank
  std::function<double(const GridChoice &)> getLeastSeconds; // lower bound of a step
  std::function<GridCost(const GridChoice &)> evaluate;
};

struct RankedGrid {
  GridChoice grid;
  GridCost cost;
  int64_t memory = 0; // bytes that a rank may use
  int64_t copies = 1; // with Goal::Throughput: copies on the devices
  double weight = 1;  // objective of one second of a step
  double objective = 0;
  bool fits() const { return cost.memory.getNeed() <= memory; }
};

struct SearchResult {
  static constexpr size_t numBest = 10;
  std::vector<RankedGrid> best;     // that fit, the best first, at most numBest
  std::vector<RankedGrid> tooLarge; // the grids that do not fit, by needed bytes
  std::vector<std::pair<GridChoice, std::string>> refused;
  unsigned enumerated = 0, prunedByMemory = 0, prunedByTime = 0, simulated = 0;
};

/// Returns all grids of a problem in a fixed order.
std::vector<GridChoice> enumerateGrids(const SearchProblem &problem);
SearchResult searchGrids(const SearchProblem &problem);

/// Difference of two estimates by cause, and its error: the sum over causes of the difference times
/// the error of the machine's tables, and a hundredth of the best time.
struct Comparison {
  std::array<double, 5> difference;
  double total = 0, error = 0;
  bool isDecided() const { return std::abs(total) > error; }
};
Comparison compareGrids(const RankedGrid &best, const RankedGrid &other,
                        const ::tpc::Machine::Errors &errors);

} // namespace mlir::tpc

#endif // TPC_PLAN_SEARCH_H
