//===- StageOrder.h - Pipeline stages along a graph's edges -----*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_STAGEORDER_H
#define TPC_LIB_IMPORT_ONNX_STAGEORDER_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/MapVector.h"

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace mlir::tpc::frontend {

/// A stage takes nothing from later ones, also where the nodes between them say nothing.
class StageOrder {
public:
  using Stages = llvm::MapVector<const ::onnx::NodeProto *, int64_t>;

  /// The graph has no cycle.
  explicit StageOrder(const ::onnx::GraphProto &graph);

  /// A node, and one of an earlier stage that needs it.
  struct Backwards {
    const ::onnx::NodeProto *from, *to;
  };
  std::optional<Backwards> findBackwards(const Stages &stages) const;

private:
  const ::onnx::GraphProto &graph;
  SmallVector<SmallVector<int, 2>> needs; // of each node: those that compute what it uses
  SmallVector<int> order;                 // each after those that it needs
};

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_STAGEORDER_H
