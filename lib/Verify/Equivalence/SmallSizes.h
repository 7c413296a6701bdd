//===- SmallSizes.h - Grid and sizes of a cheap test run --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H
#define TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H

#include "SizeReduction.h"

namespace mlir::tpc::equivalence {

/// Grid and sizes for a run of a program at small sizes. A grid of fewer ranks allows smaller
/// sizes.
struct SmallSizes {
  GridAttr grid;
  std::optional<SizeReduction> sizes;

  /// Chooses the largest sizes with which both programs take about `budget` multiplications at
  /// most, or the smallest ones if these take at most `limit`. `eachRank`: counts replicated
  /// computation on each rank. Sets `skipped` to the reason if there are none. Errors: an op
  /// without a size model.
  LogicalResult choose(ModuleOp model, ModuleOp program, double budget, double limit, bool eachRank,
                       std::string &skipped);

  /// Enlarges sizes so that integers exceed the constants that `coverage` reports as compared
  /// without both results, such as the 6 of a mask `query - key < 6`. Returns false, with sizes
  /// unchanged, if there is none or a run would take more than `limit`.
  bool reachConstants(const interpret::Coverage &coverage, double limit);

  /// Removes rows from tables of positions that no run of `coverage` looked up. An index past the
  /// last row is then out of bounds. Returns false, with sizes unchanged, if there are none.
  bool fitTables(const interpret::Coverage &coverage);
  void restoreTables();

private:
  std::map<int64_t, int64_t> fitted;
  double estimate() const;

  ModuleOp model, program;
  bool eachRank = false;
};

/// Returns the approximate number of multiplications of a program.
double estimateWork(ModuleOp module, GridAttr grid, const interpret::Sizes &sizes);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H
