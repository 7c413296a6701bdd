//===- PlanFacts.h - Layer counts, and warnings about a plan ----*- C++ -*-===//

#ifndef TPC_ANALYSIS_PLANFACTS_H
#define TPC_ANALYSIS_PLANFACTS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Returns the number of layers in an op and its callees: calls of layer functions, and attention
/// ops outside of layer functions.
int64_t countLayers(Operation *op);

/// Whether an op or a callee calls a layer or a section of a layer.
bool callsLayers(Operation *op);

/// Emits a warning and appends it to `tpc.warnings`. Used for valid plans that leave ranks idle.
void warnAboutPlan(ModuleOp module, const Twine &message);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PLANFACTS_H
