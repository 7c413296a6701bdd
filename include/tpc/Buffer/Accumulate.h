//===- Accumulate.h - Sums over micro-batches on buffers --------*- C++ -*-===//
//
// Buffer.h does not include this header, so that a change recompiles only code that uses these ops.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_BUFFER_ACCUMULATE_H
#define TPC_BUFFER_ACCUMULATE_H

#include "tpc/Buffer/Buffer.h"

#define GET_OP_CLASSES
#include "tpc/Buffer/BufferAccumulateOps.h.inc"

#endif // TPC_BUFFER_ACCUMULATE_H
