//===- Reshard.h - Search for reshard sequences ---------------------------===//
//
// Finds the cheapest sequence of collectives between two distributions of a value by a
// shortest-path search over distributions. The cost is lexicographic: the elements that a rank
// sends, the number of collectives, the number of slices. Sizes are nominal sizes of the largest
// shard; sent elements are those of ring algorithms (tpc/Support/Links.h).
//
// Steps use only axes that occur in one of the two distributions. The only steps over `mb` are
// slices and sums, because a rank has one micro-batch at a time.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_COLLECTIVES_RESHARD_H
#define TPC_TRANSFORMS_COLLECTIVES_RESHARD_H

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct ReshardStep {
  enum Kind { Slice, AllReduce, ReduceScatter, AllGather, AllToAll, Permute, Exchange } kind;
  SmallVector<StringAttr, 2> axes;
  int64_t dim = -1, toDim = -1; // toDim of an all-to-all
  DistAttr result;
};
/// Returns whether a collective of this kind can run over an axis: over mb, only an all-reduce can.
inline bool isPossible(ReshardStep::Kind kind, StringAttr axis) {
  return axis.getValue() != kMicroBatchAxis || kind == ReshardStep::AllReduce;
}
/// Returns the name as in the IR, such as "all_gather".
StringRef stringify(ReshardStep::Kind kind);

/// Cost of a sequence, compared lexicographically.
struct ReshardCost {
  int64_t sent = 0;        // elements sent per rank, times the world size
  int64_t collectives = 0; // a gather or scatter counts once per axis
  int64_t slices = 0;

  auto operator<=>(const ReshardCost &) const = default;
  ReshardCost operator+(const ReshardCost &other) const {
    return {sent + other.sent, collectives + other.collectives, slices + other.slices};
  }
};

/// Return properties of a collective or slice op: its kind; its axes; the dimension that is
/// scattered, gathered or sliced (-1: none); the distribution of its operand or result as a global
/// type.
std::optional<ReshardStep::Kind> getStepKind(Operation *op);
SmallVector<StringAttr, 2> getAxes(Operation *op);
int64_t getDim(Operation *op);
inline DistAttr getGlobalForm(Value value) { return getDist(value).withLocal(false); }

DistAttr withDim(DistAttr dist, int64_t dim, DimAttr attr);
/// Prints the global size of dimension `dim` in the format of kTacticsAttr; empty for -1.
std::string printSize(DistAttr dist, int64_t dim);
/// Returns the distribution of an operand or result of an op. `dims`: its dimensions in the
/// sharding rule; `splits`: the op's split of each factor. Null if a split of a product of factors
/// is part of a larger dimension, which `#tpc.dim` cannot express.
DistAttr composeDist(MLIRContext *context, const ShardingRule::Dims &dims,
                     ArrayRef<DimAttr> splits);

/// Lowering of an op with a permuted factor.
struct Permutation {
  int64_t dim; // permuted dimension of operand and result
  ::tpc::SymExpr run;
  bool isLocal; // runs are not split, so there is no communication
  /// The communication; nothing if shards of a run are not contiguous.
  std::optional<BlockMove> move;
};
/// Returns nothing for an op without a permuted factor.
std::optional<Permutation> getPermutation(ShardingRuleOpInterface op);

/// Implements tpc-insert-reshards: sets the distribution of every value, and inserts reshards.
LogicalResult insertReshards(ModuleOp module);

struct ReshardPath {
  SmallVector<ReshardStep> steps;
  ReshardCost cost;
};

class ReshardPlanner {
public:
  ReshardPlanner(MeshAttr grid, Symbols symbols) : grid(grid), symbols(std::move(symbols)) {}

  /// Predicate for the allowed collectives. `dist`: the distribution of the operand.
  using Filter = function_ref<bool(ReshardStep::Kind, StringAttr axis, DistAttr dist, int64_t dim)>;
  /// Returns the cheapest sequence of allowed steps; nothing if there is none. Uses an exchange
  /// only if it sends less than the cheapest sequence without one.
  std::optional<ReshardPath> find(DistAttr from, DistAttr to, Filter filter) const;

  /// Returns the cost of one collective over `axes` that converts `from` to `to`.
  ReshardCost getCost(ReshardStep::Kind kind, ArrayRef<StringAttr> axes, DistAttr from,
                      DistAttr to) const;
  /// Returns the seconds for one step on an operand with distribution `from` and elements of
  /// `elementBytes` bytes.
  double getSeconds(const ReshardStep &step, DistAttr from, double elementBytes,
                    const LinkModel &links) const;
  /// Returns the number of elements of the largest shard.
  int64_t getElements(DistAttr dist) const;
  /// Returns the maximum number of elements that a rank sends or receives if each rank receives
  /// only missing elements.
  int64_t getMaxMovedElements(DistAttr from, DistAttr to) const;

private:
  std::optional<ReshardPath> search(DistAttr from, DistAttr to, Filter filter,
                                    bool exchanges) const;
  int64_t getSentElements(DistAttr from, const ReshardPath &path) const;

  MeshAttr grid;
  Symbols symbols;
};

/// Emits the op of one step. With a grid, the types are local.
Value emitReshardStep(OpBuilder &builder, Location loc, Value value, const ReshardStep &step,
                      MeshAttr grid);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_COLLECTIVES_RESHARD_H
