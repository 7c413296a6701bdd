//===- FactorClasses.h - Classes of factors that are split together -------===//
//
// Represents every dimension of every value as a list of classes, major to minor. A class is a set
// of factors that sharding rules relate: an axis that splits one of them splits all. In
//
//     %y = tpc.matmul %x, %w : [b*s, 40], [40, 160]       classes: [T] [H], [H] [F]
//     %z = tpc.gelu %y                                             [T] [F]
//     %u = tpc.reshape %x : [b*s, 40] -> [b, s, 40]                [b] [s] [H]
//
// all dimensions of 160 columns are of class F. The reshape divides class T into classes b and s,
// in all values.
//
// The analysis covers the module. Operands and results of calls are unified with the callee's, so a
// layer that is called twelve times has one set of classes.
//
// The implementation is a union-find over nodes that can be divided into children. Unifying two
// lists aligns them from the front. Equal sizes become one class. If one size divides the other,
// the larger class is divided. If neither size divides the other ([5, 8] and [8, 5]), there are no
// common factors, and the rest of both lists is marked unsplittable. Each step removes a leaf from
// a list or replaces a leaf by two smaller ones, so unification terminates.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_FACTORCLASSES_H
#define TPC_ANALYSIS_FACTORCLASSES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Tpc.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

class FactorClasses {
public:
  using Classes = SmallVector<int, 2>;

  explicit FactorClasses(ModuleOp module);

  /// Returns the classes of a dimension of a value. Factors of size 1 have none.
  Classes getClasses(Value value, unsigned dim);
  /// Returns the classes of a factor of `op`'s rule.
  Classes getFactorClasses(Operation *op, unsigned factor);
  /// Returns the cached rule of `op`.
  const ShardingRule &getRule(Operation *op) const;

  const ::tpc::SymExpr &getSize(int cls) const { return nodes[cls].size; }
  /// Returns the first op that prevents a split of this class; null if the class can be split.
  Operation *getPreventingOp(int cls) const {
    return nodes[cls].preventingOps.empty() ? nullptr : nodes[cls].preventingOps.front();
  }
  /// Returns all ops that prevent a split of this class, in the order of the analysis.
  ArrayRef<Operation *> getPreventingOps(int cls) const {
    return nodes[cls].preventingOps.getArrayRef();
  }

  /// Adds an op that was created after the analysis. Class numbers do not change if the op's rule
  /// adds no new relation.
  void addOp(Operation *op);
  /// Removes an op that will be erased. It prevents no splits anymore; the relations of its rule
  /// remain.
  void removeOp(Operation *op);

  /// Divides classes of a dimension into factors of these sizes, major to minor. Returns false and
  /// changes nothing if the sizes do not divide each other.
  bool divide(Value value, unsigned dim, ArrayRef<::tpc::SymExpr> sizes);

private:
  struct Node {
    ::tpc::SymExpr size;
    int parent;
    SmallVector<int, 2> children;
    llvm::SmallSetVector<Operation *, 1> preventingOps;
  };
  int addNode(const ::tpc::SymExpr &size);
  int find(int node);
  void collectLeaves(int node, Classes &out);
  void unify(ArrayRef<int> a, ArrayRef<int> b, Operation *op);
  void join(int a, int b);
  void unifyValues(Value a, Value b, Operation *op);
  ArrayRef<int> getNodes(Value value);

  std::vector<Node> nodes;
  DenseMap<Value, SmallVector<int, 4>> valueNodes;
  DenseMap<Operation *, std::pair<ShardingRule, SmallVector<int, 4>>> opNodes;
};

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_FACTORCLASSES_H
