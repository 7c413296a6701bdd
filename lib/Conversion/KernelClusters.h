//===- KernelClusters.h - Which ops of a block form a kernel ----*- C++ -*-===//
//
// Each op that no library computes starts as a cluster of its own; clusters of
// a producer and a consumer merge where every row of the merged one can be
// computed by itself. What remains acyclic is kept in an order in which the
// block can be rewritten.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_KERNELCLUSTERS_H
#define TPC_LIB_CONVERSION_KERNELCLUSTERS_H

#include "BufferPlanner.h"
#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Conversion/Target/TargetTraits.h"

namespace mlir::tpc {

/// Whether a kernel computes an op, and no call does.
bool isOfKernels(Operation *op);

/// Part of the block that is emitted at one place: a cluster, a product with
/// what it computes as well, or a single op.
struct Node {
  SmallVector<Operation *> ops; // in program order
  bool isKernel = false;
  SmallVector<DimAttr> rows;  // of a kernel
  SmallVector<Value> results; // values of a kernel that are stored
};

class KernelClusters {
public:
  explicit KernelClusters(Block &block);

  /// A value that every kernel computes again: it depends on no memory.
  bool isGenerated(Value value) const;
  /// Whether an op becomes a call: what it uses has to be in memory.
  bool isCall(Operation *op) const;

  /// All nodes, in an order that respects their dependencies.
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
  llvm::DenseSet<Operation *> calls; // that could be parts of kernels as well
  llvm::DenseSet<Operation *> generated;
  DenseMap<Operation *, unsigned> nodeOf;
  SmallVector<Node> nodes;
  std::vector<std::pair<Operation *, Operation *>> order; // first before second
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELCLUSTERS_H
