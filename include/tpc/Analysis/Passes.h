//===- Passes.h - Analysis passes -------------------------------*- C++ -*-===//

#ifndef TPC_ANALYSIS_PASSES_H
#define TPC_ANALYSIS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Analysis/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Analysis/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PASSES_H
