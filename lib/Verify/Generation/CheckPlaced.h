//===- CheckPlaced.h - A placed step against the step -----------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_CHECKPLACED_H
#define TPC_LIB_VERIFY_GENERATION_CHECKPLACED_H

#include "tpc/Dialect/State.h"

namespace mlir::tpc {

/// Whether a step that takes whole caches (tpc-place-caches) does for each sequence of a batch what
/// `step` does for it alone. `report`: prints what the runs have exercised.
LogicalResult checkPlacedStep(ModuleOp step, const StepSymbols &symbols, ModuleOp placed,
                              const PlacedStep &form, bool report);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_GENERATION_CHECKPLACED_H
