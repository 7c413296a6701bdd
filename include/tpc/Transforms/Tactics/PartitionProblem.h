//===- PartitionProblem.h - Program that tactics partition ------*- C++ -*-===//
//
// Read-only facts about a program for tactics: its ops in order, the uses of each class of factors,
// its matrices, and names for reports.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_TACTICS_PARTITIONPROBLEM_H
#define TPC_TRANSFORMS_TACTICS_PARTITIONPROBLEM_H

#include "tpc/Analysis/FactorClasses.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Factor of an op that contains a class.
struct ClassUse {
  Operation *op;
  unsigned factor;
};

class PartitionProblem {
public:
  PartitionProblem(ModuleOp module, const ::tpc::ShardSpec &spec, FactorClasses &classes);

  /// Reads the ops again, after a rewrite that kept the classes. Sites of erased ops are invalid.
  void refresh();

  mutable ModuleOp module;
  const ::tpc::ShardSpec &spec;
  FactorClasses &classes;
  const MeshAttr mesh; // that of `spec`

  /// Returns the grid axes that are part of a view, such as tp or ep (see Mesh.h), outermost first:
  /// in the order in which they split a class.
  SmallVector<StringAttr> getAtoms(StringRef view) const;
  bool isInView(StringAttr atom, StringRef view) const { return mesh.isInView(atom, view); }

  /// Returns the ops with a rule, in program order.
  ArrayRef<Operation *> getOps() const { return ops; }
  /// Returns all uses of a class in op rules, in program order.
  ArrayRef<ClassUse> getUses(int cls) const;
  /// Returns the classes of each factor of an op, or of each dimension of a value.
  SmallVector<FactorClasses::Classes> getLists(Operation *op) const;
  SmallVector<FactorClasses::Classes> getLists(Value value) const;
  /// Returns how often `op` is executed per step: the number of calls of its function.
  int64_t getCallCount(Operation *op) const;
  /// Returns all calls of a function.
  ArrayRef<func::CallOp> getCalls(func::FuncOp function) const;

  /// Returns the parameter op of `value`; for an argument of a layer, the parameter ops of all
  /// calls.
  SmallVector<Operation *> getParameters(Value value) const;
  /// Returns the parameter operand of a matmul or lookup; null if there is none.
  Value getMatrix(Operation *op) const;
  /// Norms that the axes of a view may split along their width, because they are decomposed
  /// afterwards. `inner`: over widths within a layer; `residual`: over the residual's width.
  struct DecomposableNorms {
    StringRef view;
    DenseSet<Operation *> inner, residual;
    bool contains(Operation *op) const { return inner.contains(op) || residual.contains(op); }
  };
  DecomposableNorms decomposable;

  /// Returns the first op that prevents a split of `cls` over `axes`; null if none does.
  /// Decomposable norms do not prevent splits over their view.
  Operation *getPreventingOp(int cls, ArrayRef<StringAttr> axes) const;
  /// Returns true if a decomposable norm is over the residual's width, which includes `cls`.
  bool isResidualWidth(int cls) const;

  /// Returns the classes within the runs of a permuted factor, major to minor; empty for other
  /// factors.
  SmallVector<int> getPermuted(Operation *op, unsigned factor) const;
  bool isPermuted(ClassUse use, int cls) const {
    return llvm::is_contained(getPermuted(use.op, use.factor), cls);
  }

  /// Describes a class for reports: its size ("5 heads", "160"), and the matmuls, lookups and
  /// attention ops that contain it.
  std::string describe(int cls) const;
  /// Describes a class that may have no unit, such as "8 heads" or "96 of 'fc1'".
  std::string describeParts(int cls) const;
  std::string describeSites(int cls) const;

private:
  llvm::MapVector<int, SmallVector<ClassUse>> uses;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls; // by callee
};

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_TACTICS_PARTITIONPROBLEM_H
