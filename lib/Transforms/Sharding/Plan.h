//===- Plan.h - What the tactics decide -------------------------*- C++ -*-===//
//
// Tactics run in sequence on one plan. Each assigns grid axes to classes of
// factors (or, for sequence parallelism, chooses ops) and records what it split
// and which communication follows from that.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_SHARDING_PLAN_H
#define TPC_LIB_TRANSFORMS_SHARDING_PLAN_H

#include "tpc/Analysis/FactorClasses.h"
#include "tpc/Driver/ShardSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// A collective that follows from a tactic.
struct Prediction {
  StringRef kind; // "all_reduce", …
  StringRef axis;
  std::string size; // global size of the dimension that is gathered or scattered; may be empty
  std::string why;
};

struct TacticRecord {
  std::string name;
  SmallVector<std::string> splits; // for people: what was split, how
  SmallVector<Prediction> predictions;
};

/// Where a class occurs.
struct ClassUse {
  Operation *op;
  unsigned factor;
};

class Plan {
public:
  Plan(ModuleOp module, const ::tpc::ShardSpec &spec, FactorClasses &classes);

  mutable ModuleOp module;
  const ::tpc::ShardSpec &spec;
  FactorClasses &classes;
  std::vector<TacticRecord> records;

  /// Axes that split a class, in order.
  llvm::MapVector<int, SmallVector<StringAttr, 2>> axes;
  /// Ops that work on a part of the tokens: op -> rule factor that tp splits.
  llvm::MapVector<Operation *, unsigned> tokenFactor;
  /// Arguments of layer functions that are placed so: dimension that tp splits.
  llvm::MapVector<Value, unsigned> tokenArguments;

  ArrayRef<StringAttr> getAxes(int cls) const;
  bool hasAxis(ArrayRef<int> classes, StringRef axis) const;
  void addAxis(int cls, StringRef axis);

  /// Distribution of a dimension (or factor) that consists of these classes.
  DimAttr getDim(ArrayRef<int> classes, bool splitTokens = false) const;

  /// All uses of classes in op rules, in program order.
  ArrayRef<ClassUse> getUses(int cls) const;
  /// Ops with a rule, in program order.
  ArrayRef<Operation *> getOps() const { return ops; }
  /// How often a step runs `op`: the number of calls of its function.
  int64_t getCallCount(Operation *op) const;

  /// Whether an op leaves partial sums (or maxima, minima) along `axis`.
  bool isUnreduced(Value value, StringRef axis) const;

  /// The parameter that `value` is, through calls: `parameters` of a layer's
  /// argument are those of all calls.
  SmallVector<Operation *> getParameters(Value value) const;

private:
  llvm::MapVector<int, SmallVector<ClassUse>> uses;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls; // by callee
};

/// Adds partial sums before anything else is added to them, so that one reduction does for
/// all: x + attention + mlp becomes (attention + mlp) + x. Returns whether anything
/// changed; then the plan must be made anew.
bool regroupSums(const Plan &plan);

/// Splits the batch over data-parallel replicas and micro-batches.
LogicalResult applyDataTactic(Plan &plan);
/// Splits weights over tp: heads, inner widths, the vocabulary.
LogicalResult applyTensorTactic(Plan &plan);
/// Places what tp does not split on parts of the tokens.
LogicalResult applySequenceTactic(Plan &plan);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_SHARDING_PLAN_H
