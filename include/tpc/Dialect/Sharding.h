//===- Sharding.h - What a user wants of a weight or value ------*- C++ -*-===//
//
// `tpc.sharding` on a tpc.weight, on an op with one result, or on an argument of @main says how
// that tensor is to be split: an array with one entry for each of its dimensions,
//
//     #tpc.dim<64>             not split
//     #tpc.dim<192{tp}>        split over tp, at the outermost factor that can be split
//     #tpc.dim<3 * 4{tp} * 16> split over tp at the factor of 4 heads: these elements and no others
//     unit                     left to the other tactics
//
// Sizes are the tensor's global sizes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_SHARDING_H
#define TPC_DIALECT_SHARDING_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Checks a `tpc.sharding` of a tensor with these global sizes: one entry for each dimension, of
/// its size; each axis once, and an axis of `grid` (where there is one) that splits dimensions.
LogicalResult verifySharding(Attribute sharding, ArrayRef<::tpc::SymExpr> sizes, GridAttr grid,
                             function_ref<InFlightDiagnostic()> emitError);

/// Where an op stands for a value of the file, the importer's location says so:
/// loc("node"("MatMul"("value"))). Empty: it does not.
std::string getValueName(Location loc);
Location nameValue(Location loc, StringRef name);

/// Names of the graph's nodes in a location: of what is inside of a function, the node that calls
/// it.
void collectNodeNames(Location loc, SmallVectorImpl<std::string> &names);

/// "[-, tp, ?]"
std::string printSharding(ArrayAttr sharding);

} // namespace mlir::tpc

#endif // TPC_DIALECT_SHARDING_H
