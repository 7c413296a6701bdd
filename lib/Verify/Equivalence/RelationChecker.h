//===- RelationChecker.h - Are the types of a program true? -----*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_RELATIONCHECKER_H
#define TPC_LIB_VERIFY_EQUIVALENCE_RELATIONCHECKER_H

#include "Lemmas.h"

namespace mlir::tpc::equivalence {

/// Checks, with the lemma of each op (LemmaOpInterface), that every value of a distributed program
/// is of the whole value what its type says, if the values before it are. By induction from the
/// inputs, which are whole, and the parameters, of which a rank loads what the type says, all types
/// are then true. The first op at which this breaks is an error.
class RelationChecker {
public:
  explicit RelationChecker(ModuleOp module) : module(module), grid(GridAttr::lookup(module)) {}
  LogicalResult run();

  // For lemmas.
  ModuleOp getModule() const { return module; }
  GridAttr getGrid() const { return grid; }
  /// Whether the program is one of local values.
  bool isLocal() const { return local; }

  const Relation &get(Type type) {
    auto [it, first] = relations.try_emplace(type);
    if (first)
      it->second = std::make_unique<Relation>(readRelation(type, grid));
    return *it->second;
  }
  const Relation &get(Value value) { return get(value.getType()); }

  InFlightDiagnostic fail(Operation *op) const;
  /// Adds where in the grid two layouts differ.
  LogicalResult differ(InFlightDiagnostic diag, const Layout &derived, const Layout &stated) const;

  /// A type that says something about a rank's value must belong to a program of ranks, and its
  /// sizes must be those that follow from it. Of results it is checked already.
  LogicalResult checkType(Operation *op, Type type);
  LogicalResult checkFormula(Operation *op, const Lemma &lemma);

private:
  LogicalResult checkOp(Operation *op);
  LogicalResult checkHeads(Operation *op, const Layout &query, const Layout &kv);
  LogicalResult checkPartial(Operation *op, const Lemma &lemma,
                             const llvm::MapVector<StringAttr, int> &roles,
                             ArrayRef<std::optional<Layout>> layouts);

  ModuleOp module;
  GridAttr grid;
  bool local = false, staged = false;
  DenseMap<Type, std::unique_ptr<Relation>> relations;
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_RELATIONCHECKER_H
