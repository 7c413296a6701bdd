//===- PlannedDists.h - Distributions implied by a plan ---------*- C++ -*-===//
//
// A plan states which axes split which classes, and at which ops. It implies the distributions that
// an op requires of its operands and produces, and the collectives in between. This class computes
// them before any value has a distribution, with the search that lowers reshards (Reshard.h). A
// decision therefore costs exactly what its collectives will cost.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H
#define TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H

#include "Plan.h"
#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Analysis/LinkModel.h"

namespace mlir::tpc {

class PlannedDists {
public:
  explicit PlannedDists(const Plan &plan);

  /// Returns the axes of a class in factor `index` of an op; overrides those of the plan.
  using AxesOf = function_ref<SmallVector<StringAttr>(int cls, unsigned index)>;
  /// Returns how `op` splits the factors of its rule.
  SmallVector<DimAttr> getSplits(Operation *op) const;
  SmallVector<DimAttr> getSplits(Operation *op, AxesOf axesOf) const;
  /// Returns the distribution that `op` requires of an operand, or produces as a result (possibly
  /// unreduced), if it splits its factors as in `splits`.
  DistAttr getRequired(Operation *op, unsigned operand, ArrayRef<DimAttr> splits) const;
  DistAttr getProduced(OpResult result, ArrayRef<DimAttr> splits) const;
  /// Returns the distribution that a use requires: by the op's rule, or by the called function.
  /// Null if there is no requirement.
  DistAttr getRequired(OpOperand &use) const;
  /// Returns the distribution that a value is produced in, before a reshard to its annotation.
  DistAttr getProduced(Value value) const;
  /// Returns the dimensions in which an annotation stores an op's result sharded. If the op splits
  /// other dimensions over the same axes, they become replicated in the value. Null without such an
  /// annotation.
  DistAttr getStored(Value value) const;
  /// Returns the distribution that users read. Unreduced axes are reduced into `made`'s own
  /// dimensions, or into dimensions that the plan splits over these axes anywhere else.
  DistAttr getArrival(Value value) const { return getArrival(value, getProduced(value)); }
  DistAttr getArrival(Value value, DistAttr produced) const;

  /// Divides a dimension into these classes, major to minor; nothing if an axis crosses a boundary.
  std::optional<SmallVector<DimAttr>> splitByClasses(DimAttr dim, ArrayRef<int> list) const;

  /// Returns the collectives that convert `from` to `to`; nothing if there are none.
  const std::optional<ReshardPath> &getPath(DistAttr from, DistAttr to);
  /// Returns their seconds for elements of `value`'s type; infinity if there are none.
  double getSeconds(Value value, DistAttr from, DistAttr to);

private:
  const Plan &plan;
  GridAttr grid;
  LinkModel links;
  ReshardPlanner planner;
  DenseMap<std::pair<DistAttr, DistAttr>, std::optional<ReshardPath>> paths;
};

/// Returns `dist` with only those axes for which `keeps` is true.
DistAttr keepAxes(DistAttr dist, function_ref<bool(StringAttr)> keeps);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H
