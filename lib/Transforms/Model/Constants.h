//===- Constants.h - Small constants in model passes ------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H
#define TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H

#include "tpc/Analysis/Index/Splats.h"

namespace mlir::tpc {

/// Returns true for a vector of n elements that does not depend on inputs; leading dimensions may
/// be 1.
bool isConstantVector(Value v, const ::tpc::SymExpr &n);

/// Creates a constant with a single value: rank 0, expanded to `type`.
Value createSplat(OpBuilder &builder, Location loc, RankedTensorType type, double number);
Value createScalar(OpBuilder &builder, Location loc, Type element, double number);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H
