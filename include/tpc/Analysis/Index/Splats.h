//===- Splats.h - Values whose elements are all one number ------*- C++ -*-===//

#ifndef TPC_ANALYSIS_INDEX_SPLATS_H
#define TPC_ANALYSIS_INDEX_SPLATS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// The value that all elements have, if that is known: a splat constant or a constant size, also
/// through ops that move elements and through casts. Integers and booleans come as doubles (nothing
/// for integers that a double does not hold).
std::optional<double> getSplat(Value v);
inline bool isSplat(Value v, double number) { return getSplat(v) == number; }
/// A splat within a relative error: for factors that exporters round.
bool isSplatNear(Value v, double number, double tolerance = 1e-5);

/// The value of an element-wise op whose operands are all splats with these values.
std::optional<double> evaluateScalar(Operation *op, ArrayRef<double> operands);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_INDEX_SPLATS_H
