//===- Async.h - Asynchronous communication on buffers ----------*- C++ -*-===//
//
// Not part of Buffer.h: only code for asynchronous communication includes this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_BUFFER_ASYNC_H
#define TPC_BUFFER_ASYNC_H

#include "tpc/Buffer/Buffer.h"

#define GET_OP_CLASSES
#include "tpc/Buffer/BufferAsyncOps.h.inc"

#endif // TPC_BUFFER_ASYNC_H
