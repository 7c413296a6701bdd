//===- LocalIndex.h - Indices of a dimension and of a rank's part -*- C++ -*-===//
//
// A dimension is a list of factors, each split over any axes, and what is left of their product
// may be split again: [2{tpy} * 12], [3 * 8{tp}], [(batch{dp} * sequence){tp}]. What a rank has is
// in order, but in a row only if no factor but the outermost is split. All that asks where an
// element is goes through the two functions here.
//
// An index is a T: a value in a kernel, or an expression where it is one of the sizes itself.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_LOCALINDEX_H
#define TPC_DIALECT_LOCALINDEX_H

#include "tpc/Dialect/RankSizes.h"

namespace mlir::tpc {

/// Arithmetic on indices.
template <typename T> class IndexArithmetic {
public:
  virtual ~IndexArithmetic() = default;
  virtual T size(const ::tpc::SymExpr &expr) = 0;
  virtual T add(T x, T y) = 0;
  virtual T sub(T x, T y) = 0;
  virtual T mul(T x, T y) = 0;
  /// Of values that are not negative.
  virtual T quotient(T x, T y) = 0;
  virtual T remainder(T x, T y) = 0;
};

/// Indices that are expressions.
class SymbolicIndices final : public IndexArithmetic<::tpc::SymExpr> {
  using E = ::tpc::SymExpr;

public:
  E size(const E &expr) override { return expr; }
  E add(E x, E y) override { return x + y; }
  E sub(E x, E y) override { return x - y; }
  E mul(E x, E y) override { return x * y; }
  E quotient(E x, E y) override { return E::floorDiv(x, y); }
  E remainder(E x, E y) override { return E::mod(x, y); }
};

/// A factor that is split with all behind it that are not: the rank's part of them is in a row.
struct IndexRun {
  ::tpc::SymExpr begin;         // of this rank's part
  ::tpc::SymExpr local, global; // elements
  bool split;
};
SmallVector<IndexRun, 2> getIndexRuns(DimAttr dim, GridAttr grid);

/// Where an element of the whole dimension is in this rank's part.
template <typename T> struct LocalIndex {
  T index;
  /// It is there if each first is less than its second, as unsigned numbers. Empty: always.
  SmallVector<std::pair<T, ::tpc::SymExpr>, 2> inside;
};

namespace detail {
/// Index in each run. Divisors are sizes: where one is 0, nobody has the element.
template <typename T>
SmallVector<T, 2> divideIndex(IndexArithmetic<T> &at, T index, ArrayRef<IndexRun> runs,
                              ::tpc::SymExpr IndexRun::*size) {
  SmallVector<T, 2> parts(runs.size());
  for (size_t i = runs.size() - 1; i > 0; --i) {
    T divisor = at.size(::tpc::SymExpr::max(runs[i].*size, 1));
    parts[i] = at.remainder(index, divisor);
    index = at.quotient(index, divisor);
  }
  parts[0] = index;
  return parts;
}

template <typename T>
T joinIndex(IndexArithmetic<T> &at, ArrayRef<T> parts, ArrayRef<IndexRun> runs,
            ::tpc::SymExpr IndexRun::*size) {
  T index = parts[0];
  for (size_t i = 1; i < runs.size(); ++i)
    index = at.add(at.mul(index, at.size(runs[i].*size)), parts[i]);
  return index;
}
} // namespace detail

/// The index in the whole dimension of an index in this rank's part.
template <typename T>
T getGlobalIndex(IndexArithmetic<T> &at, DimAttr dim, GridAttr grid, T local) {
  if (!dim.isSharded())
    return local;
  SmallVector<IndexRun, 2> runs = getIndexRuns(dim, grid);
  T inProduct = at.add(local, at.size(getProductBegin(dim, grid)));
  auto parts = detail::divideIndex<T>(at, inProduct, runs, &IndexRun::local);
  for (size_t i = 0; i < runs.size(); ++i)
    parts[i] = at.add(parts[i], at.size(runs[i].begin));
  return detail::joinIndex<T>(at, parts, runs, &IndexRun::global);
}

/// `global` is an index of the whole dimension.
template <typename T>
LocalIndex<T> getLocalIndex(IndexArithmetic<T> &at, DimAttr dim, GridAttr grid, T global) {
  if (!dim.isSharded())
    return {global, {}};
  LocalIndex<T> result;
  SmallVector<IndexRun, 2> runs = getIndexRuns(dim, grid);
  auto parts = detail::divideIndex<T>(at, global, runs, &IndexRun::global);
  for (size_t i = 0; i < runs.size(); ++i) {
    parts[i] = at.sub(parts[i], at.size(runs[i].begin));
    if (runs[i].split)
      result.inside.push_back({parts[i], runs[i].local});
  }
  result.index = detail::joinIndex<T>(at, parts, runs, &IndexRun::local);
  if (!dim.getAxes().empty()) {
    result.index = at.sub(result.index, at.size(getProductBegin(dim, grid)));
    result.inside.push_back({result.index, getLocalSize(dim, grid)});
  }
  return result;
}

/// Whether what a rank has of the dimension is in a row.
bool isRange(DimAttr dim);

} // namespace mlir::tpc

#endif // TPC_DIALECT_LOCALINDEX_H
