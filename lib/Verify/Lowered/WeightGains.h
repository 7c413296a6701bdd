//===- WeightGains.h - Weights with which caps have an effect ---*- C++ -*-===//
//
// Random weights give small numbers. 30 * tanh(x / 30) is x then, clips clip nothing, softmax is
// flat, and a program that lacks all three computes nearly the same. So weights that lead to such
// an op are made larger, until it has an effect.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H
#define TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H

#include "../Interpret/World.h"

namespace mlir::tpc::lowered {

/// Raises `gains` for what `coverage`, of a run of `program` with these, says is not exercised
/// because numbers are too small. False if it is all exercised, or no weight leads there.
bool raiseGains(ModuleOp program, const interpret::Coverage &coverage,
                llvm::StringMap<double> &gains);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H
