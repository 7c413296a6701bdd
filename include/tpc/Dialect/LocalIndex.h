//===- LocalIndex.h - Conversion between global and local indices ---------===//
//
// A dimension is a list of factors, each split over any axes. The product of the local factors may
// be split again: [2{tpy} * 12], [3 * 8{tp}], [(batch{dp} * sequence){tp}]. The elements of a rank
// are in order, but contiguous only if no factor but the outermost is split. All code that locates
// elements uses getGlobalIndex and getLocalIndex.
//
// T is the type of an index: a Value in a kernel, or an expression where the index is a size.
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
  /// For non-negative values.
  virtual T quotient(T x, T y) = 0;
  virtual T remainder(T x, T y) = 0;
};

/// Arithmetic on indices that are expressions.
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

/// A split factor together with the unsplit factors after it: the rank's shard of them is
/// contiguous.
struct IndexRun {
  ::tpc::SymExpr begin;         // of this rank's shard
  ::tpc::SymExpr local, global; // elements
  bool split;
};
SmallVector<IndexRun, 2> getIndexRuns(DimAttr dim, GridAttr grid);

/// Location of an element of the whole dimension in this rank's shard.
template <typename T> struct LocalIndex {
  T index;
  /// The rank has the element if each first is less than its second, as unsigned numbers. Empty:
  /// always.
  SmallVector<std::pair<T, ::tpc::SymExpr>, 2> inside;
};

namespace detail {
/// Returns the index in each run. Divisors are sizes: where one is 0, no rank has the element.
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

/// Converts an index in this rank's shard to an index in the whole dimension.
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

/// Converts `global`, an index in the whole dimension, to an index in this rank's shard.
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

/// Whether this rank's shard of the dimension is contiguous.
bool isRange(DimAttr dim);

} // namespace mlir::tpc

#endif // TPC_DIALECT_LOCALINDEX_H
