//===- Reshard.h - Search for reshard sequences ---------------------------===//
//
// Finds the sequence of collectives between two distributions of a value by a shortest-path search.
// States are distributions, steps are collectives. The cost is the bytes that a rank sends, then
// the number of collectives, then the number of slices. Sizes are nominal, of the rank with the
// most; messages are counted as rings send them (tpc/Support/Links.h).
//
// Steps never use an axis that occurs in neither end, as nothing changes along it. `mb` is an axis
// in time, over which values can only be sliced.
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
/// Returns the IR's spelling, such as "all_gather".
StringRef stringify(ReshardStep::Kind kind);

/// Cost of a sequence; members are compared in this order.
struct ReshardCost {
  int64_t sent = 0;        // elements that a rank sends, times the world size
  int64_t collectives = 0; // each axis of a gather or scatter counts
  int64_t slices = 0;

  auto operator<=>(const ReshardCost &) const = default;
  ReshardCost operator+(const ReshardCost &other) const {
    return {sent + other.sent, collectives + other.collectives, slices + other.slices};
  }
};

/// Properties of a collective or slice op: its kind; its axes; the dimension that it scatters,
/// gathers or slices (-1: none); the distribution of its operand or result in global form.
std::optional<ReshardStep::Kind> getStepKind(Operation *op);
SmallVector<StringAttr, 2> getAxes(Operation *op);
int64_t getDim(Operation *op);
inline DistAttr getGlobalForm(Value value) { return getDist(value).withLocal(false); }

DistAttr withDim(DistAttr dist, int64_t dim, DimAttr attr);
/// Prints the global size of dimension `dim` as in expected collectives; empty for -1.
std::string printSize(DistAttr dist, int64_t dim);
/// Returns the distribution of an operand or result of an op, from its dimensions in the sharding
/// rule and the op's split of each factor. Null if a factor with axes on a product of factors is
/// part of a larger dimension, which cannot be expressed.
DistAttr composeDist(MLIRContext *context, const ShardingRule::Dims &dims,
                     ArrayRef<DimAttr> splits);

/// Lowering of an op with a permuted factor, for one distribution of its result.
struct Permutation {
  int64_t dim; // of operand and result
  ::tpc::SymExpr run;
  bool isLocal; // every rank has whole runs, so no communication
  /// Communication between ranks. Nothing if shards of a run are not contiguous.
  std::optional<BlockMove> move;
};
/// Returns nothing for an op without a permuted factor.
std::optional<Permutation> getPermutation(ShardingRuleOpInterface op);

/// Gives every value of a module a distribution, and inserts reshards where ops need another one.
LogicalResult insertReshards(ModuleOp module);

struct ReshardPath {
  SmallVector<ReshardStep> steps;
  ReshardCost cost;
};

class ReshardPlanner {
public:
  ReshardPlanner(GridAttr grid, Symbols symbols) : grid(grid), symbols(std::move(symbols)) {}

  /// Whether a collective may be used; `dist` is the distribution of its operand.
  using Filter = function_ref<bool(ReshardStep::Kind, StringAttr axis, DistAttr dist, int64_t dim)>;
  /// Returns the cheapest sequence of steps that `filter` allows; nothing if there is none. Uses an
  /// exchange only if it sends less than the best sequence of other collectives.
  std::optional<ReshardPath> find(DistAttr from, DistAttr to, Filter filter) const;

  /// Returns the cost of one collective over `axes` that converts `from` to `to`.
  ReshardCost getCost(ReshardStep::Kind kind, ArrayRef<StringAttr> axes, DistAttr from,
                      DistAttr to) const;
  /// Returns the seconds for one step from `from`, for elements of `elementBytes` bytes.
  double getSeconds(const ReshardStep &step, DistAttr from, double elementBytes,
                    const LinkModel &links) const;
  /// Returns the number of elements on the rank with the most.
  int64_t getElements(DistAttr dist) const;
  /// Returns the maximum number of elements that a rank sends or receives if each receives only the
  /// elements that it needs and does not have.
  int64_t getMoved(DistAttr from, DistAttr to) const;

private:
  std::optional<ReshardPath> search(DistAttr from, DistAttr to, Filter filter,
                                    bool exchanges) const;
  int64_t getSent(DistAttr from, const ReshardPath &path) const;

  GridAttr grid;
  Symbols symbols;
};

/// Emits the op of one step, on local values where a grid is given.
Value emitReshardStep(OpBuilder &builder, Location loc, Value value, const ReshardStep &step,
                      GridAttr grid);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_COLLECTIVES_RESHARD_H
