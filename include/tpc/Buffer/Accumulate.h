//===- Accumulate.h - Sums over micro-batches on buffers --------*- C++ -*-===//
//
// Not part of Buffer.h: only code for sums over micro-batches includes this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_BUFFER_ACCUMULATE_H
#define TPC_BUFFER_ACCUMULATE_H

#include "tpc/Buffer/Buffer.h"

#define GET_OP_CLASSES
#include "tpc/Buffer/BufferAccumulateOps.h.inc"

#endif // TPC_BUFFER_ACCUMULATE_H
