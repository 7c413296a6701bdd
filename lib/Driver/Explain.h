//===- Explain.h - Effects of each tactic -----------------------*- C++ -*-===//
//
// Applies the tactics of --megatron-shard one after the other. After each tactic, a copy of the
// program is compiled up to the staged level, and its report is compared with the previous report.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_EXPLAIN_H
#define TPC_LIB_DRIVER_EXPLAIN_H

#include "tpc/Analysis/Report.h"
#include "tpc/Support/ShardSpec.h"
#include "tpc/Transforms/Tactics/ValueExplanation.h"

namespace mlir::tpc {

struct TacticEffect {
  std::string name;                 // "tp", …, "pp"
  std::string summary;              // what the tactic splits and why
  std::vector<std::string> splits;  // descriptions of split and unsplit dimensions
  std::vector<std::string> reasons; // of each split; may be empty
  /// Additional collectives of a step (negative: saved), on one rank of each stage.
  std::vector<CollectiveRow> communication;
  /// Memory of the worst-case rank, before and after.
  int64_t weightsBefore = 0, weights = 0;
  int64_t peakBefore = 0, peak = 0; // bytes of weights and live values
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

/// Explanations of all values with one ONNX name.
struct ValueExplanations {
  std::vector<ValueExplanation> values;

  llvm::json::Value toJSON() const;
  void print(llvm::raw_ostream &os) const;
};

/// Explains the values with a name, on a copy of a module at the model level.
FailureOr<ValueExplanations> explainValues(ModuleOp module, const ::tpc::ShardSpec &spec,
                                           const std::string &name);

} // namespace mlir::tpc

#endif // TPC_LIB_DRIVER_EXPLAIN_H
