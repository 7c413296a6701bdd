//===- Accumulate.h - Sums over micro-batches -------------------*- C++ -*-===//
//
// Tpc.h does not include this header, so that a change recompiles only code that uses these ops.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_ACCUMULATE_H
#define TPC_DIALECT_ACCUMULATE_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/AccumulateOps.h.inc"

namespace mlir::tpc {

/// Returns the type of the sum of a value over all micro-batches: without mb in its partial axes.
Type getAccumulatedType(Type type);

/// Returns the op in a stage that reads sum `index`; null if there is none.
AccumulatedOp findAccumulated(StageOp stage, int64_t index);

} // namespace mlir::tpc

#endif // TPC_DIALECT_ACCUMULATE_H
