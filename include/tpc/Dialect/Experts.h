//===- Experts.h - Mixture of experts ---------------------------*- C++ -*-===//
//
// Not part of Tpc.h: only passes and models of experts include this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_EXPERTS_H
#define TPC_DIALECT_EXPERTS_H

#include "tpc/Dialect/Tpc.h"

#include "tpc/Dialect/ExpertEnums.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/ExpertOps.h.inc"

#endif // TPC_DIALECT_EXPERTS_H
