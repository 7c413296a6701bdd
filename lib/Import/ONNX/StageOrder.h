//===- StageOrder.h - Pipeline stage order along graph edges ----*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_STAGEORDER_H
#define TPC_LIB_IMPORT_ONNX_STAGEORDER_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/MapVector.h"

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace mlir::tpc::frontend {

/// Checks that no stage depends on a later stage, directly or through nodes without a stage.
class StageOrder {
public:
  using Stages = llvm::MapVector<const ::onnx::NodeProto *, int64_t>;

  /// Requires a graph without cycles.
  explicit StageOrder(const ::onnx::GraphProto &graph);

  /// Node in a later stage, and a node in an earlier stage that needs it.
  struct BackwardDependence {
    const ::onnx::NodeProto *from, *to;
  };
  std::optional<BackwardDependence> findBackwardDependence(const Stages &stages) const;

private:
  const ::onnx::GraphProto &graph;
  SmallVector<SmallVector<int, 2>> needs; // per node: producers of its operands
  SmallVector<int> order;                 // topological order: producers first
};

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_STAGEORDER_H
