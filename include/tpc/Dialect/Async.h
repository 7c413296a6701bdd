//===- Async.h - Asynchronous communication ---------------------*- C++ -*-===//
//
// Tpc.h does not include this header, so that a change recompiles only code that uses these ops.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_ASYNC_H
#define TPC_DIALECT_ASYNC_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/AsyncOps.h.inc"

#endif // TPC_DIALECT_ASYNC_H
