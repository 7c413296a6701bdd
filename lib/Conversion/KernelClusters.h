//===- KernelClusters.h - Clusters of ops that form kernels -----*- C++ -*-===//
//
// Each op without a library call starts as its own cluster. The clusters of a producer and a
// consumer merge where every row of the result can be computed independently and the graph stays
// acyclic. Nodes are returned in an order in which the block can be rewritten.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_KERNELCLUSTERS_H
#define TPC_LIB_CONVERSION_KERNELCLUSTERS_H

#include "BufferPlanner.h"
#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Conversion/Target/TargetTraits.h"

namespace mlir::tpc {

/// Returns whether a kernel, and no runtime call, computes an op.
bool isComputedByKernel(Operation *op);

/// A set of ops that is emitted together: a cluster, a matmul with its epilogue, or a single op.
struct Node {
  SmallVector<Operation *> ops; // in program order
  bool isKernel = false;
  SmallVector<DimAttr> rows;  // of a kernel
  SmallVector<Value> results; // values of a kernel that are stored
};

class KernelClusters {
public:
  explicit KernelClusters(Block &block);

  /// Returns whether every kernel recomputes the value, because it depends on no memory.
  bool isGenerated(Value value) const;
  /// Returns whether an op becomes a runtime call, whose operands have to be in memory.
  bool isCall(Operation *op) const;

  /// Returns all nodes in an order that respects their dependencies.
  SmallVector<Node> getNodes();

private:
  void cluster();
  bool isCandidate(Operation *op) const;
  void findGenerated();
  void findNodes();
  void mergeAll();
  bool tryMerge(unsigned producer, unsigned consumer);
  bool isReachableOutside(unsigned from, unsigned to);
  void merge(unsigned producer, unsigned consumer, ArrayRef<DimAttr> rows);
  void findResults(Node &node);
  SmallVector<unsigned> dependencies(unsigned node) const;

  Block &block;
  const TargetTraits &target;
  DenseMap<Operation *, unsigned> position;
  llvm::DenseSet<Operation *> calls; // that could be in kernels as well
  llvm::DenseSet<Operation *> generated;
  DenseMap<Operation *, unsigned> nodeOf;
  SmallVector<Node> nodes;
  std::vector<std::pair<Operation *, Operation *>> order; // first before second
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELCLUSTERS_H
