//===- PlannedDists.h - Distributions implied by a plan ---------*- C++ -*-===//
//
// A plan assigns axes to classes. This determines the distributions of operands and results of each
// op, and the collectives between producers and users. This class computes both before
// distributions are assigned to values, with the search that also lowers reshards (Reshard.h).
// Estimated costs of decisions are therefore the estimated costs of the actual collectives.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H
#define TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H

#include "tpc/Transforms/Collectives/Reshard.h"
#include "tpc/Transforms/Tactics/PartitionState.h"

#include "tpc/Analysis/LinkModel.h"

namespace mlir::tpc {

class PlannedDists {
public:
  explicit PlannedDists(const PartitionState &state);

  /// Returns the axes of a class in factor `index` of an op, instead of the axes in the state.
  using AxesOf = function_ref<SmallVector<StringAttr>(int cls, unsigned index)>;
  /// Returns the splits of the factors of the rule of `op`.
  SmallVector<DimAttr> getSplits(Operation *op) const;
  SmallVector<DimAttr> getSplits(Operation *op, AxesOf axesOf) const;
  /// Returns the distribution of an operand that `op` requires, or of a result that it produces
  /// (possibly unreduced), if `splits` are the splits of its factors.
  DistAttr getRequired(Operation *op, unsigned operand, ArrayRef<DimAttr> splits) const;
  DistAttr getProduced(OpResult result, ArrayRef<DimAttr> splits) const;
  /// Returns the distribution that a use requires, because of the op's rule or the called function;
  /// null if any distribution is valid.
  DistAttr getRequired(OpOperand &use) const;
  /// Returns the distribution of a value before it is resharded to its annotation.
  DistAttr getProduced(Value value) const;
  /// Returns the distribution of an op's result that an annotation stores sharded; null without
  /// such an annotation. Other dimensions that the op splits over the same axes are unsplit in it.
  DistAttr getStored(Value value) const;
  /// Returns the distribution that users read, given the distribution `produced`. A partial sum is
  /// all-reduced, or reduce-scattered into a dimension that the plan splits over the same axes
  /// elsewhere.
  DistAttr getArrival(Value value) const { return getArrival(value, getProduced(value)); }
  DistAttr getArrival(Value value, DistAttr produced) const;

  /// Divides a dimension into these classes, major to minor; nothing if an axis splits across a
  /// boundary of classes.
  std::optional<SmallVector<DimAttr>> splitByClasses(DimAttr dim, ArrayRef<int> list) const;

  /// Returns the collectives that reshard `from` to `to`; nothing if that is impossible.
  const std::optional<ReshardPath> &getPath(DistAttr from, DistAttr to);
  /// Returns the estimated seconds of these collectives for `value`; infinity if resharding is
  /// impossible.
  double getSeconds(Value value, DistAttr from, DistAttr to);

private:
  const PartitionState &state;
  MeshAttr grid;
  LinkModel links;
  ReshardPlanner planner;
  DenseMap<std::pair<DistAttr, DistAttr>, std::optional<ReshardPath>> paths;
};

/// Returns `dist` with only those axes for which `keeps` is true.
DistAttr keepAxes(DistAttr dist, function_ref<bool(StringAttr)> keeps);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H
