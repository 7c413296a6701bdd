//===- PartSizes.h - What a rank has of a tensor, from its type --*- C++ -*-===//
//
// The sizes that buffers are compared with, derived from types alone and by nothing that planning
// uses. Numbers, symbols of the model and coordinates (rank.tp).
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

  explicit PartSizes(GridAttr grid) : grid(grid) {}

  int64_t count(StringRef axis) const { return grid ? grid.getAxisSize(axis) : 1; }
  SymExpr coordinate(StringRef axis) const;
  /// Of n elements, those that are left after a split over each of the axes.
  SymExpr size(SymExpr n, Axes axes) const;
  /// Where the part begins that the axes from `first` on take.
  SymExpr begin(SymExpr n, Axes axes, size_t first = 0) const;

  SymExpr size(FactorAttr factor) const { return size(factor.getExpr(), factor.getAxes()); }
  /// The product of the factors before it is split.
  SymExpr inner(DimAttr dim) const;
  SymExpr size(DimAttr dim) const { return size(inner(dim), dim.getAxes()); }
  SymExpr size(ArrayRef<DimAttr> dims) const;
  SymExpr elements(Type tensor) const { return size(getDist(tensor).getDims()); }

  /// [outer, n, inner], where `axis` is the last that splits a factor of dims[dim], or the product,
  /// and n is what it splits.
  struct Box {
    SymExpr outer, n, inner;
  };
  std::optional<Box> findSplit(ArrayRef<DimAttr> dims, size_t dim, StringRef axis) const;

  /// One form for what is equal: values in place of names.
  SymExpr normalize(const SymExpr &expr) const;

private:
  GridAttr grid;
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_PARTSIZES_H
