//===- LocalIndex.h - Indices of a dimension and of a rank's part -*- C++ -*-===//
//
// A dimension is a list of factors, each split over any axes, and what is left of their product
// may be split again: [2{tpy} * 12], [3 * 8{tp}], [(batch{dp} * sequence){tp}]. What a rank has is
// in order, but in a row only if no factor but the outermost is split. All that asks where an
// element is goes through the two functions here.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_LOCALINDEX_H
#define TPC_LIB_CONVERSION_LOCALINDEX_H

#include "SizeEmitter.h"

namespace mlir::tpc {

/// The index in the whole dimension of an index in this rank's part. `at` emits what depends on
/// the index, `sizes` what does not.
Value getGlobalIndex(IndexArithmetic &at, SizeEmitter &sizes, DimAttr dim, Value local);

/// Where an element of the whole dimension is in this rank's part.
struct LocalIndex {
  Value index;
  /// It is there if each first is less than its second, as unsigned numbers. Empty: always.
  SmallVector<std::pair<Value, Value>, 2> inside;
};
/// `global` is an index of the whole dimension.
LocalIndex getLocalIndex(IndexArithmetic &at, SizeEmitter &sizes, DimAttr dim, Value global);

/// Whether what a rank has of the dimension is in a row.
bool isRange(DimAttr dim);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_LOCALINDEX_H
