//===- Chain.h - What is cut into stages ------------------------*- C++ -*-===//
//
// @main of the spmd program, seen as a chain. Its ops are of two kinds:
//
//   recomputed   each stage computes them where it needs them: what depends on inputs, constants
//                and small weights alone, where that costs less than to send it (masks,
//                positions, cos and sin), and what depends on weights alone
//   carried      they run in one stage: all others
//
// Places to cut are between carried ops, where one carried value is live.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_CHAIN_H
#define TPC_LIB_TRANSFORMS_STAGES_CHAIN_H

#include "tpc/Analysis/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

/// What each stage, or each round of one, may compute again.
struct RecomputeLimits {
  enum class Else { Nothing, Send, Hold };
  double share; // of an average stage's seconds, and of its bytes of weights
  Else instead; // or as many seconds as it takes to have the result otherwise
};

/// Ops that each stage computes again where it needs them. One is, with all that it needs, if that
/// communicates nothing, and takes and holds no more than `limits` say. What depends on
/// weights alone is so whatever it costs: nobody sends weights, or holds them twice. What
/// depends on nothing is too, unless it can be held in memory from round to round.
DenseSet<Operation *> findRecomputed(func::FuncOp main, CostModel &model, int64_t stages,
                                     RecomputeLimits limits);

/// With which of the carried ops a stage may begin.
struct StageRange {
  size_t first, last;
  bool contains(size_t position) const { return first <= position && position <= last; }
};

class Chain {
public:
  Chain(func::FuncOp main, CostModel &model, DenseSet<Operation *> recomputed);

  /// Where a stage may begin: before which of the carried ops, and the value that is live there.
  /// The first is the beginning, without a value.
  struct Place {
    size_t begin;
    Value live;
  };
  ArrayRef<Place> getPlaces() const { return places; }
  ArrayRef<Operation *> getCarried() const { return carried; }
  /// Index in getCarried(); nothing for a recomputed op.
  std::optional<size_t> getPosition(Operation *op) const;

  /// The carried ops from one place to another, the last of which may be places.size(): the end.
  ArrayRef<Operation *> getCarried(size_t from, size_t to) const;
  /// The same and what they need computed again, operands before users.
  llvm::SetVector<Operation *> getOps(size_t from, size_t to) const;
  /// Adds `op` and what it needs that is recomputed.
  void collect(Operation *op, llvm::SetVector<Operation *> &ops) const;

  /// What a stage takes, without messages to its neighbours.
  Cost getCost(size_t from, size_t to);
  /// Of which all that it computes again.
  double getRecomputedSeconds(size_t from, size_t to);
  /// What it takes to send what is live at a place; nothing at the beginning and the end.
  double getSendSeconds(size_t place) const;

  /// What the slowest stage takes and what the fullest one holds.
  Cost getMost(ArrayRef<size_t> cuts);

  /// The places where stages 1, 2, … begin: of all ways to cut the one whose slowest stage is
  /// fastest and, of those within one part in a hundred of it, the one that divides carried
  /// ops most evenly. Of a message counts, at both its ends, what it takes more than the least one:
  /// all cuts pay that.
  /// With `ranges`, each stage but the first begins in its own.
  /// Nothing if there are too few places. The first call has the most stages.
  std::optional<std::vector<size_t>> choose(size_t stages, ArrayRef<StageRange> ranges = {});

private:
  void findPlaces();
  void computeSeconds(size_t stages, ArrayRef<StageRange> ranges);
  std::vector<size_t> getWindows(size_t stages, ArrayRef<StageRange> ranges) const;

  func::FuncOp main;
  CostModel &model;
  DenseSet<Operation *> recomputed;
  SmallVector<Operation *> carried;
  DenseMap<Operation *, size_t> position;
  SmallVector<Place> places;
  /// Of choose(): places that are considered, and seconds of a stage from one to another of these.
  std::vector<size_t> windows;
  std::vector<std::vector<double>> seconds;
  std::vector<double> until; // seconds of all carried ops before this one
};

/// What is wrong with stages that begin at these places, why, and what would be better; empty if
/// all have work: a stage without a layer although there are some, or one that takes
/// more than one and a half times the mean.
std::string describeImbalance(Chain &chain, CostModel &model, ArrayRef<size_t> cuts);

/// A private function, in no module yet, that does `ops` with `arguments` and returns `results`.
func::FuncOp cloneAsFunction(OpBuilder &builder, Location loc, StringRef name,
                             ArrayRef<Operation *> ops, ArrayRef<Value> arguments,
                             ArrayRef<Value> results);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_CHAIN_H
