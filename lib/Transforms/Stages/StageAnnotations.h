//===- StageAnnotations.h - Pipeline stage annotations ----------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_STAGEANNOTATIONS_H
#define TPC_LIB_TRANSFORMS_STAGES_STAGEANNOTATIONS_H

#include "PipelineChain.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {

/// `tpc.pipeline_stage` annotations on ops of @main, from the user or from the model's file.
class StageAnnotations {
public:
  /// Removes the attributes from ops and returns them. Errors: a stage that the grid does not have;
  /// an op that uses a result of a later stage; an op outside of @main.
  static FailureOr<StageAnnotations> take(ModuleOp module, func::FuncOp main, int64_t stages);
  bool empty() const { return annotations.empty(); }

  /// Returns the ranges in which stages 1, 2, … of a chain may begin. Errors: the order of
  /// annotated ops differs from the order of their stages; no cut point between two stages.
  FailureOr<std::vector<StageBeginRange>> getRanges(const PipelineChain &chain,
                                                    size_t stages) const;

  /// Returns the annotations after ops are replaced. Annotations of a call of a layer become
  /// annotations of the calls of the layer's segments.
  StageAnnotations apply(const DenseMap<Operation *, SmallVector<Operation *>> &replacements) const;

private:
  /// Stages of an op: one, or several for a call of a layer.
  struct Annotation {
    int64_t first, last;
    llvm::MapVector<StringAttr, int64_t> stageOf = {}; // by ONNX node of the layer's ops
  };
  const Annotation *lookup(Operation *op) const {
    auto it = annotations.find(op);
    return it == annotations.end() ? nullptr : &it->second;
  }
  static FailureOr<Annotation> read(Operation *op, Attribute attr, int64_t stages);

  llvm::MapVector<Operation *, Annotation> annotations;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_STAGEANNOTATIONS_H
