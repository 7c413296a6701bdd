//===- PlannedDists.h - Distributions that follow from a plan ---*- C++ -*-===//
//
// A plan says which axes split which classes, in which places. What an op then needs of its
// operands and makes of its results, and what lies between the two, follows: it is computed here
// before any value has a distribution, with the search that lowers reshards (Reshard.h). So a
// choice costs what its collectives will cost.
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

  /// Axes of a class in factor `index` of an op, in place of those of the plan.
  using AxesOf = function_ref<SmallVector<StringAttr>(int cls, unsigned index)>;
  /// How `op` splits the factors of its rule.
  SmallVector<DimAttr> getSplits(Operation *op) const;
  SmallVector<DimAttr> getSplits(Operation *op, AxesOf axesOf) const;
  /// What `op` needs of an operand, and makes of a result (which may be unreduced), if it splits
  /// its factors so.
  DistAttr getNeeded(Operation *op, unsigned operand, ArrayRef<DimAttr> splits) const;
  DistAttr getMade(OpResult result, ArrayRef<DimAttr> splits) const;
  /// What a use needs: an op by its rule, a call as its function does. Null where nothing is said.
  DistAttr getNeeded(OpOperand &use) const;
  /// What a value is where it arises. An op's result is what the op makes, before it is held.
  DistAttr getMade(Value value) const;
  /// The dimensions of an op's result that an annotation holds in parts. Where the op splits others
  /// of its dimensions over these axes, they are whole in the value. Null: it is not held.
  DistAttr getHeld(Value value) const;
  /// What users find, once it is reduced into `made`'s own dimensions, or those that the plan
  /// splits over the same axes anywhere else.
  DistAttr getArrival(Value value) const { return getArrival(value, getMade(value)); }
  DistAttr getArrival(Value value, DistAttr made) const;

  /// A dimension divided into these classes, major to minor; nothing where an axis lies across.
  std::optional<SmallVector<DimAttr>> splitByClasses(DimAttr dim, ArrayRef<int> list) const;

  /// The collectives that make `to` of `from`; nothing where there are none.
  const std::optional<ReshardPath> &getPath(DistAttr from, DistAttr to);
  /// Seconds for them, for elements of `value`'s type; infinity where there are none.
  double getSeconds(Value value, DistAttr from, DistAttr to);

private:
  const Plan &plan;
  GridAttr grid;
  LinkModel links;
  ReshardPlanner planner;
  DenseMap<std::pair<DistAttr, DistAttr>, std::optional<ReshardPath>> paths;
};

/// `dist` without all axes but those for which `keeps` is true.
DistAttr keepAxes(DistAttr dist, function_ref<bool(StringAttr)> keeps);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PLANNEDDISTS_H
