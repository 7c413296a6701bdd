//===- BlockMove.h - Collective-permute of one dimension --------*- C++ -*-===//
//
// A collective-permute treats its dimension as
//
//     [outer, blocks, n, unit]
//
// where `outer`, `blocks` and `unit` are equal on all members of the group. Axes split n; further
// axes split the product blocks·n·unit of the local sizes. Each member has one contiguous range of
// the n·unit elements of each block, in operand and result.
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
  struct Split {
    Axes n, product;
  };

  DimAttr outer, blocks;
  ::tpc::SymExpr n, unit;
  Split in, out;

  /// Returns the move between two splits of a dimension. With `every`, the blocks are runs of
  /// `every` elements. Nothing if a member's shard of a run is not one contiguous range.
  static std::optional<BlockMove> get(DimAttr from, DimAttr to,
                                      std::optional<::tpc::SymExpr> every);
  /// Returns the move of a verified op.
  static std::optional<BlockMove> get(CollectivePermuteOp op);

  /// Returns the axes of the group: all axes that split the operand, in order.
  Axes getAxes() const;
  /// Returns the maximum number of elements of this dimension that a member of a group sends to
  /// others. `coordinates` locate the group on all other axes. `first`: attribute `from` of the op.
  std::optional<int64_t> getMaxSentElements(MeshAttr grid, const Values &coordinates,
                                            const Values &symbols,
                                            std::optional<::tpc::SymExpr> first) const;
};

/// Returns the maximum bytes that a member of a collective-permute's group sends.
std::optional<int64_t> getMaxSentBytes(CollectivePermuteOp op, MeshAttr grid,
                                       const BlockMove::Values &coordinates,
                                       const BlockMove::Values &symbols);

} // namespace mlir::tpc

#endif // TPC_DIALECT_BLOCKMOVE_H
