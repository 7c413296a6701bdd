//===- ExpertsTactic.cpp - Tactic of expert parallelism -------------------===//
//
// Splits the experts of tpc.moe over the ranks of ep. The index of an expert is a reduction factor,
// so the results of the ranks are added by one all-reduce. The tensor tactic then splits the inner
// width of each expert over the ranks of tp that ep leaves: those of etp.
//
// Ranks of ep that are replicas (of dp) have different tokens: these are gathered for the experts,
// and the all-reduce becomes a reduce-scatter.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;

/// Replicas have experts of each other's tokens: each rank gets all tokens of the replicas of ep,
/// and the results of its experts are reduce-scattered.
static void gatherTokens(PartitionState &state, MoeOp moe, ArrayRef<StringAttr> replicas) {
  for (int cls : state.problem.classes.getClasses(moe.getX(), 0))
    for (StringAttr axis : replicas)
      if (state.hasAxis({cls}, axis))
        state.forbid(moe.getOperation(), cls, axis, "experts of a rank serve all replicas of ep");
  state.expectOfOp(moe.getOperation(), "tokens of all replicas of ep, for the experts of a rank");
}

LogicalResult mlir::tpc::seedExperts(PartitionState &state) {
  int64_t ep = state.problem.spec.experts.size("ep");
  if (ep == 1)
    return success();
  SmallVector<StringAttr> axes = state.problem.getAtoms("ep"),
                          replicas = state.problem.getAtoms("dp");
  llvm::erase_if(replicas, [&](StringAttr axis) { return !llvm::is_contained(axes, axis); });

  llvm::SetVector<int> classes;
  for (Operation *op : state.problem.getOps())
    if (auto moe = dyn_cast<MoeOp>(op)) {
      classes.insert_range(state.problem.classes.getClasses(moe.getUp(), 0));
      if (!replicas.empty())
        gatherTokens(state, moe, replicas);
    }
  if (classes.empty())
    return emitError(state.problem.module.getLoc())
           << "ep" << ep << ": the model has no mixture of experts; remove the item";
  for (int cls : classes) {
    std::string what = state.problem.describe(cls), idle;
    if (state.isFixed(cls) || state.problem.classes.getPreventingOp(cls))
      return emitError(state.problem.module.getLoc())
             << "ep" << ep << ": experts cannot be split: " << state.problem.describeSites(cls);
    state.assign(cls, axes, "experts are independent, and their results are added");
    state.expectOfClass(cls, axes, what, "ep");
    auto count = state.problem.classes.getSize(cls).asConstant();
    if (count)
      idle = " (at most " + std::to_string((*count + ep - 1) / ep) + " on a rank)";
    if (count && *count < ep) {
      idle = " (" + std::to_string(ep - *count) + " without any)";
      state.warn("ep" + std::to_string(ep) + ": " + std::to_string(ep - *count) + " of " +
                 std::to_string(ep) + " ranks have no expert of " + std::to_string(*count) +
                 "; with ep" + std::to_string(*count) + " all have some");
    }
    state.explain("experts " + what + " over ep " + std::to_string(ep) + idle + ": " +
                      state.problem.describeSites(cls),
                  "experts are independent, and their results are added");
  }
  return success();
}
