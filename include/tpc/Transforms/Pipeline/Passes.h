//===- Passes.h - Pipeline stages and their schedule ------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_PIPELINE_PASSES_H
#define TPC_TRANSFORMS_PIPELINE_PASSES_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Pipeline/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Pipeline/Passes.h.inc"

/// Spmd -> staged: one function for each stage, and the schedule.
void buildPipelinePipeline(OpPassManager &pm, const ::tpc::ShardSpec &spec);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_PIPELINE_PASSES_H
