//===- KernelClusters.h - Clusters of ops that form kernels -----*- C++ -*-===//
//
// Initially each op without a library call is a cluster. The clusters of a producer and a consumer
// are merged if rows of the result can be computed independently and the graph stays acyclic. The
// kernels of queries, keys and values may be merged as well
// (TargetTraits::mergesAttentionOperands). The result is a topological order of nodes, in which the
// block is rewritten.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_KERNELCLUSTERS_H
#define TPC_LIB_CONVERSION_KERNELCLUSTERS_H

#include "BufferPlanner.h"
#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Conversion/Target/TargetTraits.h"

namespace mlir::tpc {

/// Returns whether an op is computed by a kernel instead of a runtime call.
bool isComputedByKernel(Operation *op);

/// A set of ops that is emitted together: a cluster, a matmul with its epilogue, or a single op.
struct Node {
  SmallVector<Operation *> ops; // in program order
  bool isKernel = false;
  SmallVector<DimAttr> rows;  // row dimensions, for a kernel
  SmallVector<Value> results; // stored values, for a kernel
};

class KernelClusters {
public:
  explicit KernelClusters(Block &block);

  /// Returns whether kernels recompute the value at each use, because it does not depend on memory.
  bool isGenerated(Value value) const;
  /// Returns whether an op becomes a runtime call, whose operands must be in memory.
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
  std::optional<unsigned> findKernel(Value value) const;
  void mergeAttentionOperands();
  bool isReachableOutside(unsigned from, unsigned to);
  void merge(unsigned producer, unsigned consumer, ArrayRef<DimAttr> rows);
  void findResults(Node &node);
  SmallVector<unsigned> dependencies(unsigned node) const;

  Block &block;
  const TargetTraits &target;
  DenseMap<Operation *, unsigned> position;
  llvm::DenseSet<Operation *> calls; // appends that become runtime calls
  llvm::DenseSet<Operation *> generated;
  DenseMap<Operation *, unsigned> nodeOf;
  SmallVector<Node> nodes;
  DenseMap<Operation *, Operation *> previous; // of ops that keep their relative order
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELCLUSTERS_H
