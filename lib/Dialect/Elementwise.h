//===- Elementwise.h - Helpers for element-wise ops -------------*- C++ -*-===//
//
// Functions for the C++ snippets in ElementwiseOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DIALECT_ELEMENTWISE_H
#define TPC_LIB_DIALECT_ELEMENTWISE_H

#include "OpHelpers.h"

#include "tpc/Dialect/Arithmetic.h"

namespace mlir::tpc::elementwise {

/// Infers the result type from operands that broadcast.
LogicalResult inferElementwise(std::optional<Location> loc, ValueRange operands, Type element,
                               SmallVectorImpl<Type> &types);
/// Checks that the last two operands have one element type.
LogicalResult checkSameElements(std::optional<Location> loc, ValueRange operands);
ShardingRule getElementwiseRule(Operation *op, ArrayRef<ShardingRule::Linear> linear);

/// Returns `identity` for operand 1 (the RHS), and nothing for operand 0.
inline std::optional<double> identityOfRhs(unsigned operand, double identity) {
  return operand == 1 ? std::optional<double>(identity) : std::nullopt;
}
inline bool isFloat(Value scalar) { return isa<FloatType>(scalar.getType()); }
/// Returns the number whose bits are all ones, in the element type of a boolean or integer tensor.
inline double allBits(Value tensor) {
  Type element = elementTypeOf(tensor);
  return element.isInteger(1) ? 1 : isUnsigned(element) ? 255 : -1;
}
inline bool isInteger(Value tensor) { return isa<IntegerType>(elementTypeOf(tensor)); }
/// Builds a constant of a float or integer type.
Value number(OpBuilder &b, Location loc, Type type, double value);
Value reciprocal(OpBuilder &b, Location loc, Value x);
Value sigmoid(OpBuilder &b, Location loc, Value x);
double sigmoid(double x);
Value silu(OpBuilder &b, Location loc, Value x);
Value relu(OpBuilder &b, Location loc, Value x);

} // namespace mlir::tpc::elementwise

#endif // TPC_LIB_DIALECT_ELEMENTWISE_H
