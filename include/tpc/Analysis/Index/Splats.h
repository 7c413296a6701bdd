//===- Splats.h - Splat values ----------------------------------*- C++ -*-===//

#ifndef TPC_ANALYSIS_INDEX_SPLATS_H
#define TPC_ANALYSIS_INDEX_SPLATS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Returns the value of all elements if `v` is a splat constant or a constant size, possibly after
/// casts and movement ops. Integers and booleans are converted to double; returns nothing for
/// integers that a double cannot represent.
std::optional<double> getSplat(Value v);
inline bool isSplat(Value v, double number) { return getSplat(v) == number; }
/// Whether `v` is a splat of `number`, up to the relative error `tolerance`: exporters round
/// constants.
bool isSplatNear(Value v, double number, double tolerance = 1e-5);

/// Evaluates an element-wise op whose operands are splats with these values.
std::optional<double> evaluateScalar(Operation *op, ArrayRef<double> operands);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_INDEX_SPLATS_H
