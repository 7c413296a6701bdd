//===- Training.h - Backward ops on buffers ---------------------*- C++ -*-===//
//
// Not part of Buffer.h: only models of backward programs include this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_BUFFER_TRAINING_H
#define TPC_BUFFER_TRAINING_H

#include "tpc/Buffer/Buffer.h"

#define GET_OP_CLASSES
#include "tpc/Buffer/BufferTrainingOps.h.inc"

#endif // TPC_BUFFER_TRAINING_H
