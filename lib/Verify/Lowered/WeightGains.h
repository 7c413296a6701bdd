//===- WeightGains.h - Magnitudes of random weights -------------*- C++ -*-===//
//
// Random weights give small numbers. Then 30 * tanh(x / 30) is x, clips clip nothing and softmax is
// flat, and a program without all three computes nearly the same. Weights that such an op depends
// on are therefore enlarged until the op has an effect.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H
#define TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H

#include "../Interpret/World.h"

namespace mlir::tpc::lowered {

/// Raises `gains` for facts that `coverage`, of a run of `program` with these gains, lacks because
/// numbers are too small. Returns false if all are exercised, or they depend on no weight.
bool raiseGains(ModuleOp program, const interpret::Coverage &coverage,
                llvm::StringMap<double> &gains);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H
