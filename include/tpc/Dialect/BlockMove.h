//===- BlockMove.h - Collective-permute of one dimension --------*- C++ -*-===//
//
// A collective-permute treats its dimension as
//
//     [outer, blocks, n, unit]
//
// where all members of the group agree on `outer`, `blocks` and `unit`. Axes split n; further axes
// split the product blocks·n·unit of the local sizes. So each member has one range of the n·unit
// elements of each block, before and after: whole blocks except for its first and last, or the same
// range of each block.
//
//     [batch * sequence{tp}], every sequence      outer batch, blocks 1, n sequence, unit 1
//     [(batch{dp} * sequence){tp}]                outer 1, blocks batch{dp}, n sequence, unit 1
//     [12{tp} * 64] to [(12 * 64){tp}]            outer 1, blocks 1, n 12, unit 64
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_BLOCKMOVE_H
#define TPC_DIALECT_BLOCKMOVE_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct BlockMove {
  using Axes = SmallVector<StringAttr, 2>;
  using Values = std::map<std::string, int64_t>;
  /// Axes that split n, and axes that split the product of the local sizes.
  struct Side {
    Axes part, product;
  };

  DimAttr outer, blocks;
  ::tpc::SymExpr n, unit;
  Side in, out;

  /// Describes the move from one split of a dimension to another of the same size. With `every`,
  /// the blocks are runs of `every` elements. Nothing if a member's share of a run is not one
  /// range.
  static std::optional<BlockMove> get(DimAttr from, DimAttr to,
                                      std::optional<::tpc::SymExpr> every);
  /// Describes a verified op.
  static std::optional<BlockMove> get(CollectivePermuteOp op);

  /// Returns the group: all axes of one side, in its order.
  Axes getAxes() const;
  /// Returns the maximum number of elements of this dimension that a member sends to others, for
  /// members at `coordinates` on all other axes. `first` is the start of the shift.
  std::optional<int64_t> getSent(GridAttr grid, const Values &coordinates, const Values &symbols,
                                 std::optional<::tpc::SymExpr> first) const;
};

/// Returns the bytes of one message of a collective-permute, over all dimensions.
std::optional<int64_t> getSentBytes(CollectivePermuteOp op, GridAttr grid,
                                    const BlockMove::Values &coordinates,
                                    const BlockMove::Values &symbols);

} // namespace mlir::tpc

#endif // TPC_DIALECT_BLOCKMOVE_H
