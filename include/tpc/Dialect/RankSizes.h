//===- RankSizes.h - Sizes of one rank's part, as expressions ---*- C++ -*-===//
//
// Kernels and buffers say sizes as expressions, and never as numbers that were computed from them:
// the same text holds for other sizes, other grids and all ranks. Its symbols are those of the
// model's inputs, and
//
//   _768          the static size 768
//   _12.tp        the same part of 12 on each rank of tp: 12 is a multiple of their number
//   _384.at128    the place 128 of 384: where a slice begins
//   window.16     a window of attention of 16 keys: no size, whatever sizes are 16 as well
//   ranks.tp      how many ranks are along tp; ranks.mb: micro-batches
//   rank.tp       this rank's coordinate; rank.mb: the micro-batch
//
// [(batch{dp} * 12{tp})] over dp = 2, tp = 4 has floordiv(batch + ranks.dp - 1 - rank.dp, ranks.dp)
// * _12.tp elements. A number stands for itself in every program of the same form: 0, 1, a step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_RANKSIZES_H
#define TPC_DIALECT_RANKSIZES_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

//===--- names --------------------------------------------------------------===//

/// What a symbol stands for that is none of the model's.
struct NamedSize {
  enum Kind { Size, Place, Window, Ranks, Rank } kind;
  int64_t size = 0;               // Size, Place, Window
  int64_t place = 0;              // Place
  SmallVector<StringRef, 2> axes; // Size: divided among them one after the other; Ranks, Rank: one
};
/// Nothing for symbols of the model.
std::optional<NamedSize> getNamedSize(StringRef symbol);

/// A size with a name for its number: _8*batch for 8*batch. Numbers of sums stay (past + 1), as do
/// 0 and 1.
::tpc::SymExpr getNamed(const ::tpc::SymExpr &size);
/// A static place in a dimension of a static size.
::tpc::SymExpr getNamedPlace(int64_t place, int64_t size);
/// A window of attention with a name for its number: window.16 for 16. Others stay.
::tpc::SymExpr getNamedWindow(const ::tpc::SymExpr &window);
/// This rank's coordinate on an axis; 0 on axes of size 1 and where there is no grid.
::tpc::SymExpr getCoordinate(StringRef axis, GridAttr grid);
/// The number of ranks along it; 1 for such axes.
::tpc::SymExpr getRanks(StringRef axis, GridAttr grid);

/// The expression with numbers for names, as far as they are the same on all ranks: over symbols of
/// the model and coordinates.
::tpc::SymExpr putValues(const ::tpc::SymExpr &expr, GridAttr grid);

//===--- sizes, all by name -------------------------------------------------===//

/// Size and beginning of this rank's part of n elements on an axis.
::tpc::SymExpr getShardSize(const ::tpc::SymExpr &n, StringRef axis, GridAttr grid);
::tpc::SymExpr getShardBegin(const ::tpc::SymExpr &n, StringRef axis, GridAttr grid);

/// A factor's local size, `axes`: as if only the first so many of its axes split it; where its part
/// begins in the whole factor. For indices of dimensions see LocalIndex.h.
::tpc::SymExpr getLocalSize(FactorAttr factor, GridAttr grid, std::optional<unsigned> axes = {});
::tpc::SymExpr getBegin(FactorAttr factor, GridAttr grid);
/// The size of a whole dimension.
::tpc::SymExpr getGlobalSize(DimAttr dim);
/// Product of the factors' local sizes, before the split of the product.
::tpc::SymExpr getFactorsSize(DimAttr dim, GridAttr grid);
::tpc::SymExpr getLocalSize(DimAttr dim, GridAttr grid, std::optional<unsigned> productAxes = {});
/// Where this rank's part of the product begins in the product of the local factors.
::tpc::SymExpr getProductBegin(DimAttr dim, GridAttr grid);

/// Sizes of a tensor as it lies in this rank's memory, and how many elements that are.
SmallVector<::tpc::SymExpr> getLocalSizes(Type tensor, GridAttr grid);
::tpc::SymExpr getNumElements(Type tensor, GridAttr grid);

} // namespace mlir::tpc

#endif // TPC_DIALECT_RANKSIZES_H
