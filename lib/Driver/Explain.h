//===- Explain.h - Effects of each tactic -----------------------*- C++ -*-===//
//
// The tactics of --megatron-shard run one after the other. After each, a copy of the program is
// compiled through all levels, and its report is compared with the previous one.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_EXPLAIN_H
#define TPC_LIB_DRIVER_EXPLAIN_H

#include "tpc/Analysis/Report.h"
#include "tpc/Support/ShardSpec.h"

namespace mlir::tpc {

struct TacticEffect {
  std::string name;                // "tp", …, "pp"
  std::vector<std::string> splits; // what it split, and what it kept whole
  /// Additional (or, negative, saved) collectives of a step, on one rank of each kind.
  std::vector<CollectiveRow> communication;
  /// Memory of the worst-case rank, before and after.
  int64_t weightsBefore = 0, weights = 0;
  int64_t peakBefore = 0, peak = 0; // weights and live values
};

struct Explanation {
  Symbols symbols;
  std::vector<TacticEffect> tactics;

  llvm::json::Value toJSON() const;
  void print(llvm::raw_ostream &os) const;
};

/// Explains a module at the model level, without changing it. Symbols missing in `symbols` get
/// nominal values (Nominal.h).
FailureOr<Explanation> explainTactics(ModuleOp module, const ::tpc::ShardSpec &spec,
                                      const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_LIB_DRIVER_EXPLAIN_H
