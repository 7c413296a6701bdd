//===- PartSizes.h - Sizes of a rank's slices -------------------*- C++ -*-===//
//
// Computes the expected sizes of buffers from types, without code of buffer planning. Expressions
// consist of numbers, symbols of the model and coordinates (rank.tp).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_PARTSIZES_H
#define TPC_LIB_VERIFY_BUFFERS_PARTSIZES_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

class PartSizes {
public:
  using SymExpr = ::tpc::SymExpr;
  using Axes = ArrayRef<StringAttr>;

  explicit PartSizes(MeshAttr grid) : grid(grid) {}

  /// Sets the micro-batch of one event of a schedule; without it, expressions hold for all.
  void setMicroBatch(std::optional<int64_t> number) { microBatch = number; }

  int64_t count(StringRef axis) const { return grid ? grid.getAxisSize(axis) : 1; }
  SymExpr coordinate(StringRef axis) const;
  /// Returns the size of a rank's slice of n elements, split over the axes one after the other.
  SymExpr size(SymExpr n, Axes axes) const;
  /// Returns the offset of the slice that the axes from index `first` on select.
  SymExpr begin(SymExpr n, Axes axes, size_t first = 0) const;

  SymExpr size(FactorAttr factor) const { return size(factor.getExpr(), factor.getAxes()); }
  /// Returns the product of the factors before the split over the dimension's axes.
  SymExpr inner(DimAttr dim) const;
  SymExpr size(DimAttr dim) const { return size(inner(dim), dim.getAxes()); }
  SymExpr size(ArrayRef<DimAttr> dims) const;
  SymExpr elements(Type tensor) const { return size(getDist(tensor).getDims()); }

  /// Shape [outer, n, inner] of a split: n is the size that `axis` splits, where `axis` is the last
  /// axis of a factor of dims[dim] or of the product.
  struct SplitShape {
    SymExpr outer, n, inner;
  };
  std::optional<SplitShape> findSplit(ArrayRef<DimAttr> dims, size_t dim, StringRef axis) const;

  /// Canonicalizes an expression: replaces named symbols by their values.
  SymExpr normalize(const SymExpr &expr) const;

private:
  MeshAttr grid;
  std::optional<int64_t> microBatch;
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_PARTSIZES_H
