//===- EmptyCaches.h - On empty caches, a step is the model -----*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
#define TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H

#include "tpc/Dialect/State.h"

namespace mlir::tpc::generation {

/// Shows for all sizes that the outputs of `step`, of no past, are those of `model`: the same
/// expressions of inputs and weights. Both have no calls, and are changed. What the model takes and
/// the step does not is empty then, or what it is when it is left out.
LogicalResult proveEmpty(ModuleOp model, ModuleOp step, const StepSymbols &symbols);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
