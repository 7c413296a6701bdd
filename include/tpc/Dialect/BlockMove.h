//===- BlockMove.h - A split dimension whose elements move ------*- C++ -*-===//
//
// What a collective-permute does to one dimension. It is seen as
//
//     [outer, blocks, n, unit]
//
// where `outer`, `blocks` and `unit` are there alike on all members of the group. Axes split n, and
// others what is then left of blocks·n·unit. So each member has one range of the elements n·unit
// of each block (all but a member's first and last block whole, or the same range of each), before
// and after.
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
  /// The axes that split n, and those that split what is left of all.
  struct Side {
    Axes part, product;
  };

  DimAttr outer, blocks;
  ::tpc::SymExpr n, unit;
  Side in, out;

  /// From one split of a dimension to another of the same size. With `every`, the blocks are runs
  /// of as many elements. Nothing where a member's part of a run is not one range.
  static std::optional<BlockMove> get(DimAttr from, DimAttr to,
                                      std::optional<::tpc::SymExpr> every);
  /// As stated by an op that the verifier has seen.
  static std::optional<BlockMove> get(CollectivePermuteOp op);

  /// The group: all axes of one side, in its order.
  Axes getAxes() const;
  /// The elements of this dimension that the member which sends most sends to others, for members
  /// that are at `coordinates` otherwise. `first`: of the shift.
  std::optional<int64_t> getSent(GridAttr grid, const Values &coordinates, const Values &symbols,
                                 std::optional<::tpc::SymExpr> first) const;
};

/// The same of all dimensions: bytes of one message of a collective-permute.
std::optional<int64_t> getSentBytes(CollectivePermuteOp op, GridAttr grid,
                                    const BlockMove::Values &coordinates,
                                    const BlockMove::Values &symbols);

} // namespace mlir::tpc

#endif // TPC_DIALECT_BLOCKMOVE_H
