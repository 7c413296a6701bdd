//===- SmallSizes.h - Grid and sizes of a cheap test run --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H
#define TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H

#include "SizeReduction.h"

namespace mlir::tpc::equivalence {

/// Grid and sizes of a test run. A grid of fewer ranks allows smaller sizes.
struct SmallSizes {
  MeshAttr grid;
  std::optional<SizeReduction> sizes;

  /// Chooses the largest sizes at which both programs need at most about `budget` multiplications.
  /// If there are none, chooses the smallest sizes if they need at most `limit`; otherwise sets
  /// `skipped` to the reason. `eachRank`: counts replicated computation on each rank. Error: an op
  /// without a size model.
  LogicalResult choose(ModuleOp model, ModuleOp program, double budget, double limit, bool eachRank,
                       std::string &skipped);

  /// Enlarges sizes until integers exceed the constants of comparisons that, by `coverage`, had
  /// only one result, such as the 6 of a mask `query - key < 6`. Returns false, with sizes
  /// unchanged, if there are no such comparisons or a run would need more than `limit`
  /// multiplications.
  bool reachConstants(const interpret::Coverage &coverage, double limit);

  /// Removes rows from tables of positions that, by `coverage`, no run looked up, so that an index
  /// past the last used row is out of bounds. Returns false, with sizes unchanged, if all rows are
  /// used.
  bool fitTables(const interpret::Coverage &coverage);
  void restoreTables();

private:
  std::map<int64_t, int64_t> fitted;
  double estimate() const;

  ModuleOp model, program;
  bool eachRank = false;
};

/// Returns the largest integer constant among the transitive operands of a value.
int64_t findConstant(Value value, int depth = 0);

/// Returns the approximate number of multiplications of a program.
double estimateWork(ModuleOp module, MeshAttr grid, const interpret::Sizes &sizes);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H
