//===- RankSizes.h - Symbolic local sizes of a rank -------------*- C++ -*-===//
//
// Kernels and buffers use symbolic expressions for sizes, never numbers computed from them, so that
// the same IR is valid for other sizes, other grids and all ranks. The symbols are those of the
// model's inputs, and
//
//   _768          the static size 768
//   _12.tp        the shard of 12 over tp, if tp divides 12
//   _384.at128    offset 128 of a slice in a dimension of size 384
//   window.16     an attention window of 16 keys; distinct from a size of 16
//   ranks.tp      number of ranks along tp; ranks.mb: number of micro-batches
//   rank.tp       this rank's coordinate; rank.mb: index of the micro-batch
//
// [(batch{dp} * 12{tp})] over dp = 2, tp = 4 has floordiv(batch + ranks.dp - 1 - rank.dp, ranks.dp)
// * _12.tp elements. Only numbers that do not depend on sizes are literals: 0, 1, a step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_RANKSIZES_H
#define TPC_DIALECT_RANKSIZES_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

//===--- named symbols ------------------------------------------------------===//

/// Meaning of a symbol that is not a symbol of the model.
struct NamedSize {
  enum Kind { Size, Offset, Window, Ranks, Rank } kind;
  int64_t size = 0;               // Size, Offset, Window
  int64_t offset = 0;             // Offset
  SmallVector<StringRef, 2> axes; // Size: the axes that split it, in order; Ranks, Rank: one axis
};
/// Returns nothing for symbols of the model.
std::optional<NamedSize> getNamedSize(StringRef symbol);

/// Replaces the coefficient of a size by a named symbol: _8*batch for 8*batch. Terms of sums (past
/// + 1) and the numbers 0 and 1 are kept.
::tpc::SymExpr toNamedSize(const ::tpc::SymExpr &size);
/// Returns the symbol of a static offset in a dimension of a static size.
::tpc::SymExpr getNamedOffset(int64_t offset, int64_t size);
/// Returns the symbol of a constant attention window: window.16 for 16. Other windows are returned
/// unchanged.
::tpc::SymExpr getNamedWindow(const ::tpc::SymExpr &window);
/// Returns this rank's coordinate on an axis; 0 on axes of size 1 and without a grid.
::tpc::SymExpr getCoordinate(StringRef axis, MeshAttr grid);
/// Returns the number of ranks along an axis; 1 on axes of size 1 and without a grid.
::tpc::SymExpr getNumRanks(StringRef axis, MeshAttr grid);

/// Replaces named symbols whose values are equal on all ranks by their values. The result is an
/// expression over symbols of the model and coordinates.
::tpc::SymExpr substituteNumbers(const ::tpc::SymExpr &expr, MeshAttr grid);

//===--- local sizes, in named symbols --------------------------------------===//

/// Returns the size (or the offset) of this rank's shard of n elements over an axis.
::tpc::SymExpr getShardSize(const ::tpc::SymExpr &n, StringRef axis, MeshAttr grid);
::tpc::SymExpr getShardBegin(const ::tpc::SymExpr &n, StringRef axis, MeshAttr grid);

/// Returns a factor's local size (with `axes`: as if only its first `axes` axes split it), or the
/// offset of this rank's shard in the factor. LocalIndex.h converts indices of dimensions.
::tpc::SymExpr getLocalSize(FactorAttr factor, MeshAttr grid, std::optional<unsigned> axes = {});
::tpc::SymExpr getBegin(FactorAttr factor, MeshAttr grid);
/// Returns the global size of a dimension.
::tpc::SymExpr getGlobalSize(DimAttr dim);
/// Returns the product of the local sizes of the factors, without the split of the product.
::tpc::SymExpr getFactorsSize(DimAttr dim, MeshAttr grid);
::tpc::SymExpr getLocalSize(DimAttr dim, MeshAttr grid, std::optional<unsigned> productAxes = {});
/// Returns the offset of this rank's shard in the product of the local factors.
::tpc::SymExpr getProductBegin(DimAttr dim, MeshAttr grid);

/// Returns the local sizes of a tensor, or its local number of elements.
SmallVector<::tpc::SymExpr> getLocalSizes(Type tensor, MeshAttr grid);
::tpc::SymExpr getNumElements(Type tensor, MeshAttr grid);

} // namespace mlir::tpc

#endif // TPC_DIALECT_RANKSIZES_H
