//===- RankSizes.h - Symbolic local sizes of a rank -------------*- C++ -*-===//
//
// Kernels and buffers use expressions for sizes, never numbers computed from them. So the same text
// is valid for other sizes, other grids and all ranks. The symbols are those of the model's inputs,
// and
//
//   _768          the static size 768
//   _12.tp        the equal shard of 12 on each rank of tp: 12 is a multiple of their number
//   _384.at128    offset 128 in 384, where a slice begins
//   window.16     an attention window of 16 keys; distinct from a size of 16
//   ranks.tp      number of ranks along tp; ranks.mb: number of micro-batches
//   rank.tp       this rank's coordinate; rank.mb: index of the micro-batch
//
// [(batch{dp} * 12{tp})] over dp = 2, tp = 4 has floordiv(batch + ranks.dp - 1 - rank.dp, ranks.dp)
// * _12.tp elements. Literal numbers are the same in every program of the same form: 0, 1, a step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_RANKSIZES_H
#define TPC_DIALECT_RANKSIZES_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

//===--- names --------------------------------------------------------------===//

/// Meaning of a symbol that is not the model's.
struct NamedSize {
  enum Kind { Size, Offset, Window, Ranks, Rank } kind;
  int64_t size = 0;               // Size, Offset, Window
  int64_t offset = 0;             // Offset
  SmallVector<StringRef, 2> axes; // Size: axes that split it successively; Ranks, Rank: one
};
/// Returns nothing for symbols of the model.
std::optional<NamedSize> getNamedSize(StringRef symbol);

/// Replaces the number in a size by a named symbol: _8*batch for 8*batch. Numbers in sums are kept
/// (past + 1), and so are 0 and 1.
::tpc::SymExpr getNamed(const ::tpc::SymExpr &size);
/// Returns the symbol of a static offset in a dimension of a static size.
::tpc::SymExpr getNamedOffset(int64_t offset, int64_t size);
/// Returns the symbol of a constant attention window: window.16 for 16. Other windows are returned
/// unchanged.
::tpc::SymExpr getNamedWindow(const ::tpc::SymExpr &window);
/// Returns this rank's coordinate on an axis; 0 on axes of size 1 and without a grid.
::tpc::SymExpr getCoordinate(StringRef axis, GridAttr grid);
/// Returns the number of ranks along an axis; 1 on axes of size 1 and without a grid.
::tpc::SymExpr getRanks(StringRef axis, GridAttr grid);

/// Replaces named symbols by their numbers where these are equal on all ranks. The result is an
/// expression over symbols of the model and coordinates.
::tpc::SymExpr substituteNumbers(const ::tpc::SymExpr &expr, GridAttr grid);

//===--- local sizes, by named symbols --------------------------------------===//

/// Returns size and offset of this rank's shard of n elements on an axis.
::tpc::SymExpr getShardSize(const ::tpc::SymExpr &n, StringRef axis, GridAttr grid);
::tpc::SymExpr getShardBegin(const ::tpc::SymExpr &n, StringRef axis, GridAttr grid);

/// Returns a factor's local size (as if only its first `axes` axes split it), and the offset of
/// this rank's shard in the whole factor. For indices of dimensions see LocalIndex.h.
::tpc::SymExpr getLocalSize(FactorAttr factor, GridAttr grid, std::optional<unsigned> axes = {});
::tpc::SymExpr getBegin(FactorAttr factor, GridAttr grid);
/// Returns the size of a whole dimension.
::tpc::SymExpr getGlobalSize(DimAttr dim);
/// Returns the product of the factors' local sizes, before the product is split.
::tpc::SymExpr getFactorsSize(DimAttr dim, GridAttr grid);
::tpc::SymExpr getLocalSize(DimAttr dim, GridAttr grid, std::optional<unsigned> productAxes = {});
/// Returns the offset of this rank's shard in the product of the local factors.
::tpc::SymExpr getProductBegin(DimAttr dim, GridAttr grid);

/// Returns the sizes of a tensor in this rank's memory, and its number of elements there.
SmallVector<::tpc::SymExpr> getLocalSizes(Type tensor, GridAttr grid);
::tpc::SymExpr getNumElements(Type tensor, GridAttr grid);

} // namespace mlir::tpc

#endif // TPC_DIALECT_RANKSIZES_H
