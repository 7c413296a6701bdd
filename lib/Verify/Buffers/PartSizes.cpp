//===- PartSizes.cpp - Sizes of a rank's slices ---------------------------===//

#include "PartSizes.h"
#include "tpc/Dialect/RankSizes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

SymExpr PartSizes::normalize(const SymExpr &expr) const {
  SymExpr known = substituteNumbers(expr, grid);
  return microBatch ? known.substitute({{"rank.mb", SymExpr(*microBatch)}}) : known;
}

SymExpr PartSizes::coordinate(StringRef axis) const {
  if (axis == kMicroBatchAxis && microBatch)
    return SymExpr(*microBatch);
  return count(axis) == 1 ? SymExpr(0) : SymExpr::symbol(("rank." + axis).str());
}

// Coordinate c of N has n floordiv N elements, and one more if c < n mod N. This is the number of k
// with k * N + c < n.
SymExpr PartSizes::size(SymExpr n, Axes axes) const {
  for (StringAttr axis : axes) {
    SymExpr ranks(count(axis));
    if (!ranks.isConstant(1))
      n = normalize(SymExpr::floorDiv(n - coordinate(axis) + ranks - SymExpr(1), ranks));
  }
  return n;
}

SymExpr PartSizes::begin(SymExpr n, Axes axes, size_t first) const {
  SymExpr begin(0);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    SymExpr ranks(count(axis)), c = coordinate(axis);
    if (i >= first)
      begin = begin + SymExpr::floorDiv(n, ranks) * c + SymExpr::min(c, SymExpr::mod(n, ranks));
    n = size(n, {axis});
  }
  return normalize(begin);
}

SymExpr PartSizes::inner(DimAttr dim) const {
  SymExpr size(1);
  for (FactorAttr factor : dim.getFactors())
    size = size * this->size(factor);
  return size;
}

SymExpr PartSizes::size(ArrayRef<DimAttr> dims) const {
  SymExpr size(1);
  for (DimAttr dim : dims)
    size = size * this->size(dim);
  return size;
}

std::optional<PartSizes::SplitShape> PartSizes::findSplit(ArrayRef<DimAttr> dims, size_t dim,
                                                          StringRef axis) const {
  auto isLast = [&](Axes axes) { return !axes.empty() && axes.back().getValue() == axis; };
  DimAttr split = dims[dim];
  // All factors, major to minor, and the index of the split factor among them.
  SmallVector<SymExpr> pieces;
  std::optional<size_t> found;
  for (DimAttr before : dims.take_front(dim))
    pieces.push_back(size(before));
  if (!split.getAxes().empty()) {
    if (isLast(split.getAxes()))
      found = pieces.size();
    pieces.push_back(size(inner(split), split.getAxes().drop_back()));
  } else {
    for (FactorAttr factor : split.getFactors()) {
      bool isSplit = isLast(factor.getAxes());
      if (isSplit)
        found = pieces.size();
      pieces.push_back(
          size(factor.getExpr(), isSplit ? factor.getAxes().drop_back() : factor.getAxes()));
    }
  }
  for (DimAttr inner : dims.drop_front(dim + 1))
    pieces.push_back(size(inner));
  if (!found)
    return std::nullopt;
  ArrayRef<SymExpr> all(pieces);
  return SplitShape{product(all.take_front(*found)), all[*found],
                    product(all.drop_front(*found + 1))};
}
