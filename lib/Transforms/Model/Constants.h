//===- Constants.h - Small constants in model passes -------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H
#define TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// The value that all elements have, if that is known: a splat constant or a
/// constant size, also through ops that move elements and through casts.
/// Integers and booleans come as doubles (nothing for integers that a double
/// does not hold).
std::optional<double> getSplat(Value v);
inline bool isSplat(Value v, double number) { return getSplat(v) == number; }
/// A splat within a relative error: for factors that exporters round.
bool isSplatNear(Value v, double number, double tolerance = 1e-5);

/// A vector of n that does not depend on inputs, possibly with dimensions of
/// size 1 before it.
bool isConstantVector(Value v, const ::tpc::SymExpr &n);

/// `number` as the element type holds it.
double roundTo(Type element, double number);

/// A constant with one value: rank 0, expanded where `type` is not.
Value createSplat(OpBuilder &builder, Location loc, RankedTensorType type, double number);
Value createScalar(OpBuilder &builder, Location loc, Type element, double number);

/// The value of an element-wise op whose operands are all splats with these
/// values.
std::optional<double> evaluateScalar(Operation *op, ArrayRef<double> operands);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H
