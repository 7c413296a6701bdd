//===- Splats.h - Values whose elements are all equal -----------*- C++ -*-===//

#ifndef TPC_ANALYSIS_INDEX_SPLATS_H
#define TPC_ANALYSIS_INDEX_SPLATS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Returns the common value of all elements, if known: of a splat constant or a constant size, also
/// through casts and ops that move elements. Integers and booleans are returned as doubles; nothing
/// for integers that a double cannot represent.
std::optional<double> getSplat(Value v);
inline bool isSplat(Value v, double number) { return getSplat(v) == number; }
/// Whether `v` is a splat of `number` within a relative error, for factors that exporters round.
bool isSplatNear(Value v, double number, double tolerance = 1e-5);

/// Evaluates an element-wise op whose operands are splats with these values.
std::optional<double> evaluateScalar(Operation *op, ArrayRef<double> operands);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_INDEX_SPLATS_H
