//===- Quantized.h - Ops on quantized weights -------------------*- C++ -*-===//
//
// Not part of Tpc.h: only passes and models of quantized weights include this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_QUANTIZED_H
#define TPC_DIALECT_QUANTIZED_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/QuantizedOps.h.inc"

#endif // TPC_DIALECT_QUANTIZED_H
