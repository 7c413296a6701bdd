//===- PlanFacts.h - What there is to say about a plan ----------*- C++ -*-===//

#ifndef TPC_ANALYSIS_PLANFACTS_H
#define TPC_ANALYSIS_PLANFACTS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Layers in an op and what it calls: calls of functions that are layers and, where layers are
/// not functions, attention.
int64_t countLayers(Operation *op);

/// Whether an op calls layers, or a part of one.
bool isOfLayers(Operation *op);

/// Warns that a plan does what it is asked for, but leaves ranks idle.
void warnOfPlan(ModuleOp module, const Twine &message);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PLANFACTS_H
