//===- WeightGains.h - Magnitudes of random weights -------------*- C++ -*-===//
//
// With random weights, activations are small: 30 * tanh(x / 30) is nearly x, clips have no effect,
// and a softmax is nearly uniform. A fault that removes one of these ops would not be detected. The
// weights on which such an op depends are therefore enlarged until the op has an effect.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H
#define TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H

#include "../Interpret/World.h"

namespace mlir::tpc::lowered {

/// Sets the gains of scales of quantized weights, so that matrices have elements of about the
/// magnitude that float weights have. Otherwise, products with 8-bit numbers exceed the range of
/// f16.
void setQuantizedGains(ModuleOp program, llvm::StringMap<double> &gains);

/// Raises `gains` for facts that a run of `program` did not exercise because numbers were too
/// small; `coverage` is the coverage of the run. Returns false if there are no such facts, or if no
/// weight affects them.
bool raiseGains(ModuleOp program, const interpret::Coverage &coverage,
                llvm::StringMap<double> &gains);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_WEIGHTGAINS_H
