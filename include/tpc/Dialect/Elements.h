//===- Elements.h - What an element of a tensor takes and holds -*- C++ -*-===//

#ifndef TPC_DIALECT_ELEMENTS_H
#define TPC_DIALECT_ELEMENTS_H

#include "mlir/IR/Value.h"

namespace mlir::tpc {

/// Bytes of an element in memory, files and messages: a boolean takes one. Of a tensor's type, or
/// of its elements'.
int64_t getElementBytes(Type type);
inline int64_t getElementBytes(Value tensor) { return getElementBytes(tensor.getType()); }

/// `number` as an element type holds it: the nearest float, ties to even; an integer without the
/// digits behind the point; a boolean's truth.
double roundTo(Type element, double number);

} // namespace mlir::tpc

#endif // TPC_DIALECT_ELEMENTS_H
