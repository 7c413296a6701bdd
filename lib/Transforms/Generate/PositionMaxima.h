//===- PositionMaxima.h - Maxima computed from positions --------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_POSITIONMAXIMA_H
#define TPC_LIB_TRANSFORMS_GENERATE_POSITIONMAXIMA_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Returns the maximum element of integers as an expression of past and new tokens, if every op on
/// the way is monotonic in positions. `depth`: number of ops since the first call.
std::optional<::tpc::SymExpr> findLargest(Value v, int depth = 0);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_POSITIONMAXIMA_H
