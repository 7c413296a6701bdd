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

#include "Plan.h"

#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;

/// Replicas have experts of each other's tokens: each rank gets all tokens of the replicas of ep,
/// and the results of its experts are reduce-scattered.
static void gatherTokens(Plan &plan, MoeOp moe, ArrayRef<StringAttr> replicas,
                         TacticRecord &record) {
  for (int cls : plan.classes.getClasses(moe.getX(), 0))
    for (StringAttr axis : replicas)
      if (plan.hasAxis({cls}, axis))
        plan.removeAxis(Plan::getSite(moe), cls, axis);
  plan.expectOp(moe, "tokens of all replicas of ep, for the experts of a rank", record);
}

LogicalResult mlir::tpc::applyExpertsTactic(Plan &plan) {
  int64_t ep = plan.spec.experts.size(::tpc::Axis::EP);
  if (ep == 1)
    return success();
  SmallVector<StringAttr> axes = plan.getAtoms("ep"), replicas = plan.getAtoms("dp");
  llvm::erase_if(replicas, [&](StringAttr axis) { return !llvm::is_contained(axes, axis); });

  TacticRecord record{"ep"};
  llvm::SetVector<int> classes;
  for (Operation *op : plan.getOps())
    if (auto moe = dyn_cast<MoeOp>(op)) {
      classes.insert_range(plan.classes.getClasses(moe.getUp(), 0));
      if (!replicas.empty())
        gatherTokens(plan, moe, replicas, record);
    }
  if (classes.empty())
    return emitError(plan.module.getLoc())
           << "ep" << ep << ": the model has no mixture of experts; remove the item";
  for (int cls : classes) {
    std::string what = plan.describe(cls), idle;
    if (plan.decided.contains(cls) || plan.classes.getPreventingOp(cls))
      return emitError(plan.module.getLoc())
             << "ep" << ep << ": experts cannot be split: " << plan.describeSites(cls);
    plan.addAxis(cls, "ep");
    plan.expectCommunication(cls, axes, what, "ep", record);
    auto count = plan.classes.getSize(cls).asConstant();
    if (count)
      idle = " (at most " + std::to_string((*count + ep - 1) / ep) + " on a rank)";
    if (count && *count < ep) {
      idle = " (" + std::to_string(ep - *count) + " without any)";
      plan.warnings.push_back("ep" + std::to_string(ep) + ": " + std::to_string(ep - *count) +
                              " of " + std::to_string(ep) + " ranks have no expert of " +
                              std::to_string(*count) + "; with ep" + std::to_string(*count) +
                              " all have some");
    }
    record.splits.push_back("experts " + what + " over ep " + std::to_string(ep) + idle + ": " +
                            plan.describeSites(cls));
  }
  plan.records.push_back(std::move(record));
  return success();
}
