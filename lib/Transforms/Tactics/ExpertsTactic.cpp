//===- ExpertsTactic.cpp - Tactic of expert parallelism -------------------===//
//
// Splits the experts of tpc.moe over the ranks of ep. The index of an expert is a reduction factor,
// so the results of the ranks are added by one all-reduce. With etp1, the ranks of tp have
// different experts too. Otherwise the tensor tactic splits the inner width of each expert over tp.
//
// Without dp, ep adds ranks to the dense grid, and these have the same tokens. With dp, the ranks
// of ep are replicas, all or groups of them: their tokens are gathered for the experts, and the
// all-reduce becomes a reduce-scatter.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;

/// Replicas have experts of each other's tokens: each rank gets all tokens, and the results of its
/// experts are reduce-scattered.
static void gatherTokens(Plan &plan, MoeOp moe, TacticRecord &record) {
  StringRef name = plan.spec.groupsReplicas ? "ep" : "dp";
  auto axis = StringAttr::get(plan.module.getContext(), name);
  for (int cls : plan.classes.getClasses(moe.getX(), 0))
    if (plan.hasAxis({cls}, name))
      plan.removeAxis(Plan::getSite(moe), cls, axis);
  plan.expectOp(moe, "tokens of all replicas of ep, for the experts of a rank", record);
}

LogicalResult mlir::tpc::applyExpertsTactic(Plan &plan) {
  using ::tpc::Axis;
  int64_t ep = plan.spec.experts.size(Axis::EP);
  if (ep == 1)
    return success();
  SmallVector<StringRef> axes; // the outermost first
  if (plan.spec.splitsExpertsOverReplicas())
    axes.push_back("dp");
  if (plan.spec.grid.size(Axis::EP) > 1)
    axes.push_back("ep");
  if (plan.spec.experts.size(Axis::TP) < plan.spec.grid.size(Axis::TP))
    axes.push_back("tp");

  TacticRecord record{"ep"};
  llvm::SetVector<int> classes;
  for (Operation *op : plan.getOps())
    if (auto moe = dyn_cast<MoeOp>(op)) {
      classes.insert_range(plan.classes.getClasses(moe.getUp(), 0));
      if (plan.spec.splitsExpertsOverReplicas() || plan.spec.groupsReplicas)
        gatherTokens(plan, moe, record);
    }
  if (classes.empty())
    return emitError(plan.module.getLoc())
           << "ep" << ep << ": the model has no mixture of experts; remove the item";
  for (int cls : classes) {
    std::string what = plan.describe(cls), idle;
    for (StringRef axis : axes) {
      if (plan.decided.contains(cls) || plan.classes.getPreventingOp(cls))
        return emitError(plan.module.getLoc()) << "ep" << ep << ": experts cannot be split over "
                                               << axis << ": " << plan.describeSites(cls);
      plan.addAxis(cls, axis);
      plan.expectCommunication(cls, axis, what, record);
    }
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
