//===- LocalIndex.h - Conversion between global and local indices ---------===//
//
// A dimension is a list of factors, each split over any axes. The product of the local factors may
// be split again: [2{tpy} * 12], [3 * 8{tp}], [(batch{dp} * sequence){tp}]. A rank's elements are
// in ascending order of their global index, but contiguous only if the outermost factor is the only
// split one. All code that converts indices uses getGlobalIndex and getLocalIndex.
//
// T is the type of an index: Value in kernels, SymExpr for symbolic indices.
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
  /// Division of non-negative values.
  virtual T quotient(T x, T y) = 0;
  virtual T remainder(T x, T y) = 0;
};

/// Arithmetic on symbolic indices.
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

/// A split factor and the unsplit factors after it. A rank's shard of their product is contiguous.
struct IndexRun {
  ::tpc::SymExpr begin;         // offset of this rank's shard
  ::tpc::SymExpr local, global; // number of elements: shard, entire run
  bool split;
};
SmallVector<IndexRun, 2> getIndexRuns(DimAttr dim, MeshAttr grid);

/// Local index of an element, and the conditions under which this rank has the element.
template <typename T> struct LocalIndex {
  T index;
  /// Pairs (i, n): the rank has the element if i < n for all pairs, compared as unsigned. Empty:
  /// the rank always has the element.
  SmallVector<std::pair<T, ::tpc::SymExpr>, 2> bounds;
};

namespace detail {
/// Delinearizes `index` over the sizes of `runs` (local or global). A size of 0 is replaced by 1:
/// then no rank has the element.
template <typename T>
SmallVector<T, 2> delinearize(IndexArithmetic<T> &ops, T index, ArrayRef<IndexRun> runs,
                              ::tpc::SymExpr IndexRun::*size) {
  SmallVector<T, 2> runIndices(runs.size());
  for (size_t i = runs.size() - 1; i > 0; --i) {
    T divisor = ops.size(::tpc::SymExpr::max(runs[i].*size, 1));
    runIndices[i] = ops.remainder(index, divisor);
    index = ops.quotient(index, divisor);
  }
  runIndices[0] = index;
  return runIndices;
}

template <typename T>
T linearize(IndexArithmetic<T> &ops, ArrayRef<T> runIndices, ArrayRef<IndexRun> runs,
            ::tpc::SymExpr IndexRun::*size) {
  T index = runIndices[0];
  for (size_t i = 1; i < runs.size(); ++i)
    index = ops.add(ops.mul(index, ops.size(runs[i].*size)), runIndices[i]);
  return index;
}
} // namespace detail

/// Converts a local index (in this rank's shard) to the global index.
template <typename T>
T getGlobalIndex(IndexArithmetic<T> &ops, DimAttr dim, MeshAttr grid, T local) {
  if (!dim.isSharded())
    return local;
  SmallVector<IndexRun, 2> runs = getIndexRuns(dim, grid);
  T inProduct = ops.add(local, ops.size(getProductBegin(dim, grid)));
  auto runIndices = detail::delinearize<T>(ops, inProduct, runs, &IndexRun::local);
  for (size_t i = 0; i < runs.size(); ++i)
    runIndices[i] = ops.add(runIndices[i], ops.size(runs[i].begin));
  return detail::linearize<T>(ops, runIndices, runs, &IndexRun::global);
}

/// Converts a global index to the local index in this rank's shard.
template <typename T>
LocalIndex<T> getLocalIndex(IndexArithmetic<T> &ops, DimAttr dim, MeshAttr grid, T global) {
  if (!dim.isSharded())
    return {global, {}};
  LocalIndex<T> result;
  SmallVector<IndexRun, 2> runs = getIndexRuns(dim, grid);
  auto runIndices = detail::delinearize<T>(ops, global, runs, &IndexRun::global);
  for (size_t i = 0; i < runs.size(); ++i) {
    runIndices[i] = ops.sub(runIndices[i], ops.size(runs[i].begin));
    if (runs[i].split)
      result.bounds.push_back({runIndices[i], runs[i].local});
  }
  result.index = detail::linearize<T>(ops, runIndices, runs, &IndexRun::local);
  if (!dim.getAxes().empty()) {
    result.index = ops.sub(result.index, ops.size(getProductBegin(dim, grid)));
    result.bounds.push_back({result.index, getLocalSize(dim, grid)});
  }
  return result;
}

/// Whether this rank's shard of the dimension is contiguous.
bool isRange(DimAttr dim);

} // namespace mlir::tpc

#endif // TPC_DIALECT_LOCALINDEX_H
