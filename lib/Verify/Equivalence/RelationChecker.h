//===- RelationChecker.h - Check of distributions in types ------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_RELATIONCHECKER_H
#define TPC_LIB_VERIFY_EQUIVALENCE_RELATIONCHECKER_H

#include "Lemmas.h"

namespace mlir::tpc::equivalence {

/// Proves that each value of a distributed program has the relation to a global value that its type
/// declares. The proof is by induction. Base cases: inputs are unsharded, and a rank loads the
/// slice of a parameter that the parameter's type declares. Step: if the operands of an op match
/// their types, so does the result, by the op's lemma (LemmaOpInterface). Emits an error for the
/// first op that violates its lemma.
class RelationChecker {
public:
  explicit RelationChecker(ModuleOp module) : module(module), grid(MeshAttr::lookup(module)) {}
  LogicalResult run();

  // For lemmas.
  ModuleOp getModule() const { return module; }
  MeshAttr getGrid() const { return grid; }
  /// Returns whether values of the program are local.
  bool isLocal() const { return local; }
  /// Returns whether the program is a pipeline of stages.
  bool isStaged() const { return staged; }

  const Relation &get(Type type) {
    auto [it, first] = relations.try_emplace(type);
    if (first)
      it->second = std::make_unique<Relation>(readRelation(type, grid));
    return *it->second;
  }
  const Relation &get(Value value) { return get(value.getType()); }

  InFlightDiagnostic fail(Operation *op) const;
  /// Appends the first grid coordinate at which two layouts differ.
  LogicalResult differ(InFlightDiagnostic diag, const Layout &derived, const Layout &stated) const;

  /// Checks that the program has a grid if the type is distributed, and that the sizes of the type
  /// match its distribution. Types of results are checked already.
  LogicalResult checkType(Operation *op, Type type);
  LogicalResult checkFormula(Operation *op, const Lemma &lemma);

private:
  LogicalResult checkOp(Operation *op);
  LogicalResult checkHeads(Operation *op, const Layout &query, const Layout &kv);
  LogicalResult checkPartial(Operation *op, const Lemma &lemma,
                             const llvm::MapVector<StringAttr, int> &roles,
                             ArrayRef<std::optional<Layout>> layouts);

  ModuleOp module;
  MeshAttr grid;
  bool local = false, staged = false;
  DenseMap<Type, std::unique_ptr<Relation>> relations;
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_RELATIONCHECKER_H
