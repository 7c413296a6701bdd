//===- Explain.h - What each tactic does ------------------------*- C++ -*-===//
//
// The tactics of a --megatron-shard run one after the other; after each, a copy of the program is
// taken through all levels, and its report is compared with the one before.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_EXPLAIN_H
#define TPC_LIB_DRIVER_EXPLAIN_H

#include "tpc/Analysis/Report.h"
#include "tpc/Support/ShardSpec.h"

namespace mlir::tpc {

struct TacticEffect {
  std::string name;                // "tp", …, "pp"
  std::vector<std::string> splits; // what it split, and what it left
  /// What one step of one rank of each kind has more (or, negative, less) of.
  std::vector<CollectiveRow> communication;
  /// Of the rank that holds most, before and after.
  int64_t weightsBefore = 0, weights = 0;
  int64_t peakBefore = 0, peak = 0; // weights and live values
};

struct Explanation {
  Symbols symbols;
  std::vector<TacticEffect> tactics;

  llvm::json::Value toJSON() const;
  void print(llvm::raw_ostream &os) const;
};

/// `module` is at the model level, and stays as it is. Symbols that `symbols` does not have get
/// nominal values (Nominal.h).
FailureOr<Explanation> explainTactics(ModuleOp module, const ::tpc::ShardSpec &spec,
                                      const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_LIB_DRIVER_EXPLAIN_H
