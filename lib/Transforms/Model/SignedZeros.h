//===- SignedZeros.h - Values whose zeros have a visible sign ---*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_SIGNEDZEROS_H
#define TPC_LIB_TRANSFORMS_MODEL_SIGNEDZEROS_H

#include "mlir/IR/Value.h"

namespace mlir::tpc {

/// Returns true if an output of the program, or a non-zero number such as 1/v, may depend on the
/// signs of zeros in `v`, or if this is unknown.
bool hasVisibleZeroSigns(Value v);

/// Returns true if `op` maps -0 to 0: -0 + 0 is 0, but -0 - 0 is -0. All elements of its operand
/// `side` are `number`.
bool losesZeroSign(Operation *op, unsigned side, double number);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_SIGNEDZEROS_H
