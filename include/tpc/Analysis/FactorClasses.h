//===- FactorClasses.h - Classes of dimensions that are split together ----===//
//
// Every dimension of every value of a program is a list of *classes*, major to
// minor: sets of factors that op rules relate, so that an axis that splits one
// member splits all. In
//
//     %y = tpc.matmul %x, %w : [b*s, 40], [40, 160]       classes: [T] [H], [H] [F]
//     %z = tpc.gelu %y                                             [T] [F]
//     %u = tpc.reshape %x : [b*s, 40] -> [b, s, 40]                [b] [s] [H]
//
// F contains all occurrences of the 160 columns. The reshape divides T into the two classes b and s
// wherever T occurs.
//
// The analysis covers the module: operands and results of calls are unified
// with the callee's, so a layer that is called twelve times has one set of classes.
//
// The implementation is a union-find over nodes that can be divided into children. Unifying two
// lists aligns them from the front. Equal sizes become one class. If one size divides the other,
// the larger class is divided. If neither does ([5, 8] against [8, 5]), there are no common
// factors, and the rest of both lists is marked whole. Each step removes a leaf from a list or
// replaces one by two smaller ones, so unification terminates. ones, so it ends.
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
  /// Returns the first op that requires this class whole; null if it can be split.
  Operation *getWholeOp(int cls) const {
    return nodes[cls].wholeOps.empty() ? nullptr : nodes[cls].wholeOps.front();
  }
  /// Returns all ops that require this class whole, in the order of the analysis.
  ArrayRef<Operation *> getWholeOps(int cls) const { return nodes[cls].wholeOps.getArrayRef(); }

  /// Relates the values of an op that was created after the analysis. Classes
  /// keep their numbers as long as this only repeats known relations.
  void addOp(Operation *op);

  /// Divides classes of a dimension so that it consists of factors of these sizes, major to minor.
  /// Returns false and changes nothing if sizes do not divide each other.
  bool divide(Value value, unsigned dim, ArrayRef<::tpc::SymExpr> sizes);

private:
  struct Node {
    ::tpc::SymExpr size;
    int parent;
    SmallVector<int, 2> children;
    llvm::SmallSetVector<Operation *, 1> wholeOps;
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
