//===- SmallSizes.h - Grid and sizes for a run that takes no time -*- C++ -*-==//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H
#define TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H

#include "SizeReduction.h"

namespace mlir::tpc::equivalence {

/// What a program is run with at small sizes. A grid of fewer ranks allows for smaller ones.
struct SmallSizes {
  GridAttr grid;
  std::optional<SizeReduction> sizes;

  /// The largest with which both programs take at most `budget` multiplications, about, or the
  /// smallest if these take at most `limit`. `eachRank`: ranks that have the same of a value
  /// compute it all the same. Where there are none `skipped` says why. Errors: an op of which it is
  /// not known what it needs of sizes.
  LogicalResult choose(ModuleOp model, ModuleOp program, double budget, double limit, bool eachRank,
                       std::string &skipped);

  /// Makes sizes so large that integers pass the constants with which `coverage` says that they are
  /// compared in vain, such as the 6 of a mask `query - key < 6`. False, and sizes are as before,
  /// if there is none, or a run would take more than `limit`.
  bool reachConstants(const interpret::Coverage &coverage, double limit);

  /// Takes rows away from tables of positions that no run of `coverage` looked up, so that its last
  /// row is the table's, and any after it is none. False, and sizes are as before, if there are
  /// none.
  bool fitTables(const interpret::Coverage &coverage);
  void unfitTables();

private:
  std::map<int64_t, int64_t> fitted;
  double estimate() const;

  ModuleOp model, program;
  bool eachRank = false;
};

/// Multiplications that a program takes, about.
double estimateWork(ModuleOp module, GridAttr grid, const interpret::Sizes &sizes);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_SMALLSIZES_H
