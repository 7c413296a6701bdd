//===- Reshard.h - Sequences of collectives from one split to another -----===//
//
// What lies between two distributions of one value is found, not built: states are
// distributions, steps are what collectives can do to them, and the path on which a rank
// sends least is taken (of several, the one with fewest collectives, then with fewest
// slices). Sizes are nominal, of the rank with most; messages are counted as rings send them
// (tpc/Support/Links.h).
//
// Steps never use an axis that occurs in neither end: along it nothing changes, so it takes no
// part. `mb` is an axis in time, over which values are sliced and nothing else.
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
/// "all_gather" as the IR spells it.
StringRef stringify(ReshardStep::Kind kind);

/// What a sequence costs; compared in this order.
struct ReshardCost {
  int64_t sent = 0;        // elements that a rank sends, times the number of all ranks
  int64_t collectives = 0; // each axis of a gather or scatter is one
  int64_t slices = 0;

  auto operator<=>(const ReshardCost &) const = default;
  ReshardCost operator+(const ReshardCost &other) const {
    return {sent + other.sent, collectives + other.collectives, slices + other.slices};
  }
};

/// What a collective or slice of the program is, its axes, the dimension that it scatters, gathers
/// or slices (-1: none); what its operand or result is, in global form; bytes of an element.
std::optional<ReshardStep::Kind> getStepKind(Operation *op);
SmallVector<StringAttr, 2> getAxes(Operation *op);
int64_t getDim(Operation *op);
inline DistAttr getGlobalForm(Value value) { return getDist(value).withLocal(false); }

DistAttr withDim(DistAttr dist, int64_t dim, DimAttr attr);
/// The global size of dimension `dim`, as predictions have it; empty for -1.
std::string printSize(DistAttr dist, int64_t dim);
/// The distribution of an operand or result of an op, from the dimensions that its rule says and
/// how the op splits each factor of the rule. Null where a factor has axes on a product of factors
/// and is a part of a larger dimension: they cannot stand there.
DistAttr composeDist(MLIRContext *context, const ShardingRule::Dims &dims,
                     ArrayRef<DimAttr> splits);

/// What becomes of an op with a permuted factor, in one distribution of its result.
struct Permutation {
  int64_t dim; // of operand and result
  ::tpc::SymExpr run;
  bool isLocal; // every rank has whole runs, and permutes alone
  /// What moves between ranks. Nothing where parts of a run are not in a row.
  std::optional<BlockMove> move;
};
/// Nothing for an op that permutes nothing.
std::optional<Permutation> getPermutation(ShardingRuleOpInterface op);

/// Gives every value of a module a distribution, and reshards what ops need in another.
LogicalResult insertReshards(ModuleOp module);

struct ReshardPath {
  SmallVector<ReshardStep> steps;
  ReshardCost cost;
};

class ReshardPlanner {
public:
  ReshardPlanner(GridAttr grid, Symbols symbols) : grid(grid), symbols(std::move(symbols)) {}

  /// Whether a collective may be used; `dist` is what it is applied to.
  using Filter = function_ref<bool(ReshardStep::Kind, StringAttr axis, DistAttr dist, int64_t dim)>;
  /// The cheapest sequence of steps that `filter` allows. Nothing where there is none. It exchanges
  /// only where less is sent than by the best sequence of other collectives.
  std::optional<ReshardPath> find(DistAttr from, DistAttr to, Filter filter) const;

  /// What one collective over `axes` costs that makes `to` of `from`.
  ReshardCost getCost(ReshardStep::Kind kind, ArrayRef<StringAttr> axes, DistAttr from,
                      DistAttr to) const;
  /// Seconds for one step from `from`, for elements of so many bytes.
  double getSeconds(const ReshardStep &step, DistAttr from, double elementBytes,
                    const LinkModel &links) const;
  /// Elements on the rank with most.
  int64_t getElements(DistAttr dist) const;
  /// Elements of the rank that sends or gets most if each gets only what it needs and has not.
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
