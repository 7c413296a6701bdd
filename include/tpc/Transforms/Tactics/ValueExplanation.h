//===- ValueExplanation.h - Reasons for a value's distribution --*- C++ -*-===//

#ifndef TPC_TRANSFORMS_TACTICS_VALUEEXPLANATION_H
#define TPC_TRANSFORMS_TACTICS_VALUEEXPLANATION_H

#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include <map>

namespace mlir::tpc {

/// Reason for one split of a value, or for an unsplit factor of a dimension.
struct SplitReason {
  std::string what;   // "dimension 2: 5 heads over tp"
  std::string axis;   // empty: unsplit
  std::string tactic; // empty: unsplit
  std::string why;
  /// Ops through which rules propagated the split, from the value to the seed, which is the last.
  std::vector<std::string> path;
};

struct ValueExplanation {
  std::string op, function;
  std::string type; // with the distribution that readers see
  std::vector<SplitReason> splits;
  /// Collectives after the value, and the tactics that expect them.
  std::vector<std::string> communication;

  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
};

/// Partitions a module at the model level, and explains all values with an ONNX name: of a node, a
/// value, a weight, an input or an output. A node of a layer names the op of the layer's function.
/// Errors: those of tactics; no such name, with the nearest name.
FailureOr<std::vector<ValueExplanation>>
explainDistributions(ModuleOp module, const ::tpc::ShardSpec &spec, StringRef name);

/// Partitions a module at the model level. Returns the reasons of splits by tactic and by text, as
/// in `tpc.tactics`; splits without a stated reason are missing.
FailureOr<std::map<std::pair<std::string, std::string>, std::string>>
getSplitReasons(ModuleOp module, const ::tpc::ShardSpec &spec);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_TACTICS_VALUEEXPLANATION_H
