//===- Quantized.h - Ops on quantized weights -------------------*- C++ -*-===//
//
// Tpc.h does not include this header, so that a change recompiles only code that uses these ops.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_QUANTIZED_H
#define TPC_DIALECT_QUANTIZED_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/QuantizedOps.h.inc"

#endif // TPC_DIALECT_QUANTIZED_H
