//===- Sharding.h - User-requested sharding of weights and values ---------===//
//
// `tpc.sharding` on a tpc.weight, on an op with one result, or on an argument of @main requests a
// split of that tensor. It is an array with one entry for each dimension of the tensor:
//
//     #tpc.dim<64>             not split
//     #tpc.dim<192{tp}>        split over tp, at the outermost factor that can be split
//     #tpc.dim<3 * 4{tp} * 16> split over tp exactly at the factor of 4 heads
//     unit                     unconstrained: the other tactics decide
//
// Sizes are the tensor's global sizes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_SHARDING_H
#define TPC_DIALECT_SHARDING_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Checks a `tpc.sharding` of a tensor with these global sizes: one entry for each dimension, with
/// the dimension's size; each axis at most once; only axes of `grid` (if given) that may split
/// tensors.
LogicalResult verifySharding(Attribute sharding, ArrayRef<::tpc::SymExpr> sizes, MeshAttr grid,
                             function_ref<InFlightDiagnostic()> emitError);

/// Returns the ONNX name of an op's result, which the importer encodes in the location
/// loc("node"("MatMul"("value"))). Empty if the location has another form.
std::string getValueName(Location loc);
Location nameValue(Location loc, StringRef name);

/// Collects the names of ONNX nodes in a location. For an op in a model-local function, this is the
/// node that calls the function.
void collectNodeNames(Location loc, SmallVectorImpl<std::string> &names);

/// Prints a sharding, such as "[-, tp, ?]".
std::string printSharding(ArrayAttr sharding);

} // namespace mlir::tpc

#endif // TPC_DIALECT_SHARDING_H
