//===- PlanFacts.h - Facts and warnings about a plan ------------*- C++ -*-===//

#ifndef TPC_ANALYSIS_PLANFACTS_H
#define TPC_ANALYSIS_PLANFACTS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Returns the number of layers in an op and its callees: calls of layer functions and, where
/// layers are not functions, attention ops.
int64_t countLayers(Operation *op);

/// Whether an op calls layers, or a section of a layer.
bool callsLayers(Operation *op);

/// Emits a warning that a plan is valid but leaves ranks idle.
void warnAboutPlan(ModuleOp module, const Twine &message);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PLANFACTS_H
