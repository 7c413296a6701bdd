//===- Elements.h - Size in bytes and rounding of elements ------*- C++ -*-===//

#ifndef TPC_DIALECT_ELEMENTS_H
#define TPC_DIALECT_ELEMENTS_H

#include "mlir/IR/Value.h"

namespace mlir::tpc {

/// Returns the bytes of an element in memory, files and messages (a boolean has one byte). `type`
/// is a tensor type or an element type.
int64_t getElementBytes(Type type);
inline int64_t getElementBytes(Value tensor) { return getElementBytes(tensor.getType()); }

/// Rounds `number` to an element type: to the nearest float, ties to even; for an integer, toward
/// zero; for a boolean, to its truth value.
double roundTo(Type element, double number);

} // namespace mlir::tpc

#endif // TPC_DIALECT_ELEMENTS_H
