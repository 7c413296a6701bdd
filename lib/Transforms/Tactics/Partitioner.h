//===- Partitioner.h - Tactics applied to a program -------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_PARTITIONER_H
#define TPC_LIB_TRANSFORMS_TACTICS_PARTITIONER_H

#include "tpc/Transforms/Tactics/Tactic.h"

namespace mlir::tpc {

/// Rewrites a module for partitioning, and runs tactics on it.
class Partitioner {
public:
  /// `limit`: number of tactics to run, from the first one (-1: all).
  Partitioner(ModuleOp module, const ::tpc::ShardSpec &spec, int64_t limit = -1)
      : module(module), spec(spec), limit(limit) {}

  /// Sets `tpc.mesh` and runs the tactics.
  LogicalResult run();

  /// Returns the result of `run`.
  PartitionState &getState() { return *state; }

private:
  LogicalResult apply(ArrayRef<const Tactic *> tactics);

  ModuleOp module;
  ::tpc::ShardSpec spec;
  int64_t limit;
  std::optional<FactorClasses> classes;
  std::optional<PartitionProblem> problem;
  std::optional<PartitionState> state;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PARTITIONER_H
