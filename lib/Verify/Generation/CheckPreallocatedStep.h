//===- CheckPreallocatedStep.h - Test of steps on preallocated caches -----===//

#ifndef TPC_LIB_VERIFY_GENERATION_CHECKPREALLOCATEDSTEP_H
#define TPC_LIB_VERIFY_GENERATION_CHECKPREALLOCATEDSTEP_H

#include "tpc/Dialect/State.h"

namespace mlir::tpc {

/// Runs `preallocated`, a step on preallocated caches (tpc-preallocate-caches), and checks that its
/// results for each sequence of a batch are those of `step` on this sequence. `report`: prints the
/// coverage.
LogicalResult checkPreallocatedStep(ModuleOp step, const StepSymbols &symbols,
                                    ModuleOp preallocated, const PreallocatedStep &form,
                                    bool report);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_GENERATION_CHECKPREALLOCATEDSTEP_H
