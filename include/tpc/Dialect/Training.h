//===- Training.h - Ops of backward programs --------------------*- C++ -*-===//
//
// Not part of Tpc.h: only passes and models of backward programs include this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_TRAINING_H
#define TPC_DIALECT_TRAINING_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/TrainingOps.h.inc"

#endif // TPC_DIALECT_TRAINING_H
