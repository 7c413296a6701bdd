//===- Dist.h - Distributed tensor types and their sizes --------*- C++ -*-===//
//

#ifndef TPC_DIALECT_DIST_H
#define TPC_DIALECT_DIST_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Returns the distribution of a tensor type. A type without encoding is static, global and
/// replicated.
DistAttr getDist(Type type);
inline DistAttr getDist(Value value) { return getDist(value.getType()); }

/// Returns the global sizes of a tensor type, one expression for each dimension.
SmallVector<::tpc::SymExpr> getSizes(Type type);
inline SmallVector<::tpc::SymExpr> getSizes(Value v) { return getSizes(v.getType()); }
inline Type elementTypeOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }
inline int64_t rankOf(Value v) { return cast<RankedTensorType>(v.getType()).getRank(); }
inline bool isFloatTensor(Value v) { return isa<FloatType>(elementTypeOf(v)); }

/// Returns the canonical type for an element type and a distribution. `grid` determines the static
/// dimensions of local types; it may be null for global types.
RankedTensorType makeTensorType(Type element, DistAttr dist, MeshAttr grid = {});
/// Returns the global, replicated type with these sizes.
RankedTensorType makeTensorType(Type element, ArrayRef<::tpc::SymExpr> sizes);

/// Splits a dimension into consecutive dimensions of the given global sizes (major to minor).
/// Returns nothing if an axis would split two of them, or if the sizes are not products of factors.
///   [batch{dp} * sequence] into (batch, sequence) -> batch{dp}, sequence
///   [12{tp} * 64] into (12, 64)                  -> 12{tp}, 64
///   [(batch * sequence){tp}] into (batch, sequence) -> nothing
std::optional<SmallVector<DimAttr>> splitDim(DimAttr dim, ArrayRef<::tpc::SymExpr> sizes);
/// Returns the dimension that is the product of `dims`, major to minor.
DimAttr joinDims(MLIRContext *context, ArrayRef<DimAttr> dims);

/// Returns the product of sizes; 1 for an empty list.
::tpc::SymExpr product(ArrayRef<::tpc::SymExpr> sizes);

/// Returns the name of the ONNX node in a location, or the location's text, for use in messages.
std::string getSourceName(Location loc);

} // namespace mlir::tpc

#endif // TPC_DIALECT_DIST_H
