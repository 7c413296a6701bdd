//===- Dist.h - Working with distributed tensor types -----------*- C++ -*-===//
//
// The vocabulary that every pass uses to read and build tensor types.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_DIST_H
#define TPC_DIALECT_DIST_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// The distribution of a tensor type; a type without encoding is static,
/// global and replicated.
DistAttr getDist(Type type);
inline DistAttr getDist(Value value) { return getDist(value.getType()); }

/// Global sizes of a tensor type, one expression for each dimension.
SmallVector<::tpc::SymExpr> getSizes(Type type);
inline SmallVector<::tpc::SymExpr> getSizes(Value v) { return getSizes(v.getType()); }
inline Type elementTypeOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }
inline int64_t rankOf(Value v) { return cast<RankedTensorType>(v.getType()).getRank(); }
inline bool isFloatTensor(Value v) { return isa<FloatType>(elementTypeOf(v)); }

/// The canonical type for an element type and a distribution. `grid` is needed
/// for local types (it decides which dimensions are static) and may be null
/// for others.
RankedTensorType makeTensorType(Type element, DistAttr dist, GridAttr grid = {});
/// The global, replicated type with these sizes.
RankedTensorType makeTensorType(Type element, ArrayRef<::tpc::SymExpr> sizes);

/// Divides a dimension's distribution into consecutive parts of the given
/// global sizes (major to minor). Nothing where an axis lies across the
/// border of two parts, or where the sizes cannot be made up of its factors.
///   [batch{dp} * sequence] into (batch, sequence) -> batch{dp}, sequence
///   [12{tp} * 64] into (12, 64)                  -> 12{tp}, 64
///   [(batch * sequence){tp}] into (batch, sequence) -> nothing
std::optional<SmallVector<DimAttr>> splitDim(DimAttr dim, ArrayRef<::tpc::SymExpr> sizes);
/// The dimension that is the product of these, major to minor.
DimAttr joinDims(MLIRContext *context, ArrayRef<DimAttr> dims);

/// The product of sizes; 1 for none.
::tpc::SymExpr product(ArrayRef<::tpc::SymExpr> sizes);

/// The name of the ONNX node (or whatever stands in the location) to be used
/// in messages.
std::string getSourceName(Location loc);

} // namespace mlir::tpc

#endif // TPC_DIALECT_DIST_H
