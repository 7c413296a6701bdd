//===- Tactic.h - Interface of partitioning tactics -------------*- C++ -*-===//
//
// A tactic seeds splits: it assigns grid axes to classes of factors, and declares the communication
// that follows (PartitionState.h). Tactics are registered by name. Their order follows from the
// facts that they need and provide:
//
//     fact         complete when
//     annotations  the user's annotations are applied
//     batch        the batch is split over dp and mb
//     experts      experts are split over ep
//     widths       heads and inner widths are split over tp
//     columns      all column dimensions of matrices are split and marked "columns"
//     rows         the other side of matrices is split over the first dimension of tp
//     axes         all classes have their axes
//     sites        no op is split twice over one axis
//     tokens       ops on shards of the tokens are chosen
//
// A tactic outside of this library needs one file:
//
//     struct MyTactic : Tactic {
//       StringRef getName() const override { return "mine"; }
//       …
//     };
//     static TacticRegistration<MyTactic> registration;
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_TACTICS_TACTIC_H
#define TPC_TRANSFORMS_TACTICS_TACTIC_H

#include "tpc/Transforms/Tactics/PartitionState.h"

namespace mlir::tpc {

/// Step of a partitioning: annotations of the user, or the splits of one item of --megatron-shard.
class Tactic {
public:
  virtual ~Tactic() = default;

  /// Returns the unique name, for `tpc.tactics` and reports.
  virtual StringRef getName() const = 0;
  /// Describes what the tactic splits and why, for --explain: one line.
  virtual StringRef getSummary() const = 0;
  /// Returns whether the tactic runs for this value of --megatron-shard.
  virtual bool isEnabled(const ::tpc::ShardSpec &spec) const = 0;
  /// Returns the facts that must be complete first: all enabled tactics that provide one of them
  /// run earlier.
  virtual SmallVector<StringRef> getNeeds() const = 0;
  /// Returns the facts to which the tactic contributes.
  virtual SmallVector<StringRef> getProvides() const = 0;
  /// Returns whether a partitioning is invalid without this tactic. Such a tactic also runs if only
  /// the first tactics are requested, and has no entry of its own in --explain.
  virtual bool isRequired() const { return false; }
  /// Changes the state. Emits an error if the model cannot be split as requested.
  virtual LogicalResult seed(PartitionState &state) const = 0;
};

/// Registers a tactic. Not thread-safe: called before the first partitioning.
void registerTactic(std::unique_ptr<Tactic> tactic);

template <typename T> struct TacticRegistration {
  TacticRegistration() { registerTactic(std::make_unique<T>()); }
};

/// Returns the enabled tactics in execution order. Tactics without a common fact run in the order
/// of registration, built-in tactics first. Errors (with `emit`): two tactics with one name, a
/// needed fact that no tactic provides, a cycle.
FailureOr<SmallVector<const Tactic *>> getTactics(const ::tpc::ShardSpec &spec,
                                                  function_ref<InFlightDiagnostic()> emit);

/// Returns the tactics of `order` that provide `fact`, and all tactics that these need.
SmallVector<const Tactic *> getTacticsFor(ArrayRef<const Tactic *> order, StringRef fact);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_TACTICS_TACTIC_H
