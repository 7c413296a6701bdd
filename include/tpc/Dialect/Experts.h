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

namespace mlir::tpc {
/// Returns the probability that a token selects one of a rank's `experts` of `all`, if each set of
/// `topK` experts is equally likely.
double getExpectedShare(int64_t all, int64_t experts, int64_t topK);
} // namespace mlir::tpc

#endif // TPC_DIALECT_EXPERTS_H
