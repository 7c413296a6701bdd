//===- PlanFacts.h - What there is to say about a plan ----------*- C++ -*-===//

#ifndef TPC_ANALYSIS_PLANFACTS_H
#define TPC_ANALYSIS_PLANFACTS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Layers in an op and what it calls: calls of functions that are layers and, where layers are
/// not functions, attention.
int64_t countLayers(Operation *op);

/// Unit attribute of a function that is a part of a layer, cut where a stage begins within one. The
/// part with the attention counts as the layer.
inline constexpr llvm::StringLiteral kLayerPartAttr = "tpc.layer_part";
/// Whether an op calls layers, or a part of one.
bool isOfLayers(Operation *op);

/// Estimates for one micro-batch, on stages: what they take without messages to their neighbours,
/// of which in layers, of which for what other stages compute too; what these messages take; and
/// bytes of weights.
inline constexpr llvm::StringLiteral kSecondsAttr = "tpc.seconds";
inline constexpr llvm::StringLiteral kLayerSecondsAttr = "tpc.layer_seconds";
inline constexpr llvm::StringLiteral kRecomputedSecondsAttr = "tpc.recomputed_seconds";
inline constexpr llvm::StringLiteral kTransferSecondsAttr = "tpc.transfer_seconds";
inline constexpr llvm::StringLiteral kWeightBytesAttr = "tpc.weight_bytes";

/// On a module: warnings of its plan, for the report.
inline constexpr llvm::StringLiteral kWarningsAttr = "tpc.warnings";

/// Warns that a plan does what it is asked for, but leaves ranks idle.
void warnOfPlan(ModuleOp module, const Twine &message);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PLANFACTS_H
