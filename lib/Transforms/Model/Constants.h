//===- Constants.h - Small constants in model passes ------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H
#define TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H

#include "tpc/Analysis/Index/Splats.h"

namespace mlir::tpc {

/// A vector of n that does not depend on inputs, possibly with dimensions of size 1 before it.
bool isConstantVector(Value v, const ::tpc::SymExpr &n);

/// A constant with one value: rank 0, expanded where `type` is not.
Value createSplat(OpBuilder &builder, Location loc, RankedTensorType type, double number);
Value createScalar(OpBuilder &builder, Location loc, Type element, double number);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_CONSTANTS_H
