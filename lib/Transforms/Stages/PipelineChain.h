//===- PipelineChain.h - Op chain that stages are cut from ------*- C++ -*-===//
//
// Views @main of the spmd program as a chain. Its ops are of two kinds:
//
//   recomputed   rematerialized in each stage that uses them: ops that depend on weights alone, and
//                ops that depend on inputs, constants and small weights alone if recomputing costs
//                less than sending (masks, positions, cos and sin)
//   carried      all other ops; each runs in one stage
//
// A cut point is between carried ops where exactly one carried value is live.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_PIPELINECHAIN_H
#define TPC_LIB_TRANSFORMS_STAGES_PIPELINECHAIN_H

#include "tpc/Analysis/Cost.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

/// Returns the source name of an op in quotes.
inline std::string quote(Operation *op) { return "'" + getSourceName(op->getLoc()) + "'"; }

/// Limits on the ops that each stage, or each micro-batch iteration of a stage, may recompute.
struct RecomputeLimits {
  enum class Alternative { None, Send, Store };
  double share;            // of an average stage's seconds and weight bytes
  Alternative alternative; // also allowed: the seconds that this alternative takes
};

/// Returns the ops that each stage recomputes. An op is recomputed with all its producers if they
/// communicate nothing and stay within the limits of time and memory. Ops that depend on weights
/// alone are always recomputed, because weights are neither sent nor loaded twice. So are ops that
/// depend on nothing, unless their results can stay in memory between micro-batch iterations.
DenseSet<Operation *> findRecomputed(func::FuncOp main, CostModel &model, int64_t stages,
                                     RecomputeLimits limits);

/// Inclusive range of carried ops with which a stage may begin.
struct StageBeginRange {
  size_t first, last;
  bool contains(size_t position) const { return first <= position && position <= last; }
};

class PipelineChain {
public:
  PipelineChain(func::FuncOp main, CostModel &model, DenseSet<Operation *> recomputed);

  /// Possible begin of a stage: index of its first carried op, and the live value. The first cut
  /// point is the beginning of the chain, which has no live value.
  struct CutPoint {
    size_t begin;
    Value live;
  };
  ArrayRef<CutPoint> getCutPoints() const { return cutPoints; }
  ArrayRef<Operation *> getCarried() const { return carried; }
  /// Returns the index in getCarried(), or nothing for a recomputed op.
  std::optional<size_t> getPosition(Operation *op) const;

  /// Returns the carried ops between two cut points. `to` may be the end, getCutPoints().size().
  ArrayRef<Operation *> getCarried(size_t from, size_t to) const;
  /// Returns the carried ops between two cut points and the recomputed ops that they use, producers
  /// first.
  llvm::SetVector<Operation *> getOps(size_t from, size_t to) const;
  /// Adds `op` and the recomputed ops that it uses.
  void collect(Operation *op, llvm::SetVector<Operation *> &ops) const;

  /// Returns the cost of a stage without messages to its neighbors.
  Cost getCost(size_t from, size_t to);
  /// Returns the seconds of recomputed ops in a stage.
  double getRecomputedSeconds(size_t from, size_t to);
  /// Returns the time to send the value that is live at a cut point; 0 at the beginning and the
  /// end.
  double getSendSeconds(size_t cutPoint) const;

  /// Returns the maximum seconds and the maximum weight bytes over all stages.
  Cost getMaxCost(ArrayRef<size_t> cuts);

  /// Returns the cut points at which stages 1, 2, … begin. Minimizes the time of the slowest stage;
  /// among partitions within 1% of the minimum, balances the carried ops. Each cut is charged for
  /// its message at both ends, but only for the time beyond that of the cheapest message, because
  /// every cut pays at least that. With `ranges`, each stage except the first begins in its range.
  /// Returns nothing if there are too few cut points. The first call must have the largest number
  /// of stages.
  std::optional<std::vector<size_t>> choose(size_t stages, ArrayRef<StageBeginRange> ranges = {});

private:
  void findCutPoints();
  void computeSeconds(size_t stages, ArrayRef<StageBeginRange> ranges);
  std::vector<size_t> getCandidates(size_t stages, ArrayRef<StageBeginRange> ranges) const;

  func::FuncOp main;
  CostModel &model;
  DenseSet<Operation *> recomputed;
  SmallVector<Operation *> carried;
  DenseMap<Operation *, size_t> position;
  SmallVector<CutPoint> cutPoints;
  /// Cut points that choose() considers, and the seconds of a stage between any two of them.
  std::vector<size_t> candidates;
  std::vector<std::vector<double>> seconds;
  std::vector<double> until; // prefix sums of the seconds of carried ops
};

/// Describes an imbalance of stages, its cause and a better choice; empty if stages are balanced.
/// An imbalance is a stage without a layer (if the model has layers), or a stage that takes more
/// than 1.5 times the mean. `cuts`: cut points at which stages begin. `chunksPerRank`: if more than
/// one, the stages are chunks.
std::string describeImbalance(PipelineChain &chain, CostModel &model, ArrayRef<size_t> cuts,
                              int64_t chunksPerRank);

/// Creates a private function, outside of any module, that runs `ops` on `arguments` and returns
/// `results`.
func::FuncOp cloneAsFunction(OpBuilder &builder, Location loc, StringRef name,
                             ArrayRef<Operation *> ops, ArrayRef<Value> arguments,
                             ArrayRef<Value> results);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_PIPELINECHAIN_H
