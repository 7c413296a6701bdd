//===- StageMarks.h - Ops that say in which stage they are ------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_STAGEMARKS_H
#define TPC_LIB_TRANSFORMS_STAGES_STAGEMARKS_H

#include "Chain.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {

/// `tpc.pipeline_stage` on ops of @main: what the user, or the model's file, says.
class StageMarks {
public:
  /// Takes them off the ops. Errors: stages that the grid does not have; an op that needs what one
  /// of a later stage computes; an op that is not in @main.
  static FailureOr<StageMarks> take(ModuleOp module, func::FuncOp main, int64_t stages);
  bool empty() const { return marks.empty(); }

  /// Where stages 1, 2, … of a chain may begin. Errors: carried ops that are in another order than
  /// their stages, or between which there is no place.
  FailureOr<std::vector<StageRange>> getRanges(const Chain &chain, size_t stages) const;

  /// The same for ops that stand for those that have marks: for a call, calls of parts of its
  /// function.
  StageMarks apply(const DenseMap<Operation *, SmallVector<Operation *>> &standIns) const;

private:
  /// The stages that an op is in: one, or of a call of a layer several.
  struct Mark {
    int64_t first, last;
    llvm::MapVector<StringAttr, int64_t> stageOf = {}; // by the names of the layer's ops
  };
  const Mark *lookup(Operation *op) const {
    auto it = marks.find(op);
    return it == marks.end() ? nullptr : &it->second;
  }
  static FailureOr<Mark> read(Operation *op, Attribute attr, int64_t stages);

  llvm::MapVector<Operation *, Mark> marks;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_STAGEMARKS_H
