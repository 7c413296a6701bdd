//===- StageMarks.h - Ops that say in which stage they are ------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_PIPELINE_STAGEMARKS_H
#define TPC_LIB_TRANSFORMS_PIPELINE_STAGEMARKS_H

#include "Chain.h"

namespace mlir::tpc {

/// `tpc.pipeline_stage` on ops of @main: what the user, or the model's file, says.
class StageMarks {
public:
  /// Takes them off the ops. Errors: stages that the grid does not have; an op that needs what one
  /// of a later stage computes; an op that is not in @main.
  static FailureOr<StageMarks> take(ModuleOp module, func::FuncOp main, int64_t stages);
  bool empty() const { return stageOf.empty(); }

  /// Where stages 1, 2, … of a chain may begin. Errors: carried ops that are in another order than
  /// their stages, or between which there is no place.
  FailureOr<std::vector<StageRange>> getRanges(const Chain &chain, size_t stages) const;

private:
  llvm::MapVector<Operation *, int64_t> stageOf;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_PIPELINE_STAGEMARKS_H
