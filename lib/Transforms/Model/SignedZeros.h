//===- SignedZeros.h - Values whose zeros have a visible sign ---*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_SIGNEDZEROS_H
#define TPC_LIB_TRANSFORMS_MODEL_SIGNEDZEROS_H

#include "mlir/IR/Value.h"

namespace mlir::tpc {

/// Returns true if an output of the program, or any non-zero result, may depend on the signs of
/// zeros in `v`, as 1/v does. Returns true if that is unknown.
bool hasVisibleZeroSigns(Value v);

/// Returns true if `op`, whose operand `side` is `number` everywhere, turns a -0 of the other
/// operand into 0: -0 + 0 is 0, but -0 - 0 is -0.
bool losesZeroSign(Operation *op, unsigned side, double number);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_SIGNEDZEROS_H
