//===- Async.h - Asynchronous communication ---------------------*- C++ -*-===//
//
// Not part of Tpc.h: only passes and models of communication include this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_ASYNC_H
#define TPC_DIALECT_ASYNC_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/AsyncOps.h.inc"

#endif // TPC_DIALECT_ASYNC_H
