//===- DataTactic.cpp - Tactic of replicas and micro-batches --------------===//
//
// Splits the class of the batch, which is the first dimension of the model's inputs, over dp and
// then, in time, over mb. This causes no communication, because inputs are replicated and almost
// all ops process samples independently. WholeBatch.cpp handles ops that mix samples.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

using namespace mlir;
using namespace mlir::tpc;

static LogicalResult reportBlocker(const Plan &plan, int batch, const WholeBatch::Blocker &blocker,
                                   std::string wanted) {
  if (!blocker.always)
    wanted = "mb" + std::to_string(plan.spec.microBatches);
  auto main = plan.module.lookupSymbol<func::FuncOp>("main");
  auto name = [](Operation *op) {
    return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
  };
  InFlightDiagnostic diag = emitError(main.getLoc())
                            << "the batch (" << plan.classes.getSize(batch).str()
                            << ", the first dimension of the inputs) cannot be split over "
                            << wanted << ": " << name(blocker.op) << " " << blocker.why;
  if (!blocker.always)
    diag << ", but a rank has one micro-batch at a time";
  diag.attachNote(blocker.op->getLoc()) << "needed unsplit here; remove " << wanted;
  if (blocker.source && blocker.source != blocker.op)
    diag.attachNote(blocker.source->getLoc())
        << "ops that depend on inputs alone can process all samples, but this depends on "
        << name(blocker.source);
  return diag;
}

/// Removes the axes of the batch at ops that process all samples in each micro-batch or replica.
static void keepWhole(Plan &plan, int batch, const WholeBatch &whole) {
  auto time = StringAttr::get(plan.module.getContext(), "mb");
  SmallVector<StringAttr> axes = plan.getAtoms("dp");
  axes.push_back(time);
  for (Operation *op : whole.ops)
    for (StringAttr axis : axes)
      plan.removeAxis(Plan::getSite(op), batch, axis);
  // Weights are loaded before the first micro-batch.
  for (ClassUse use : plan.getUses(batch))
    if (isa<ParameterOp>(use.op))
      plan.removeAxis(Plan::getSite(use.op), batch, time);
  for (auto function : plan.module.getOps<func::FuncOp>())
    if (function.getName() != "main")
      for (BlockArgument argument : function.getArguments())
        if (!plan.getParameters(argument).empty())
          plan.removeAxis(Plan::getSite(argument), batch, time);
}

/// Returns the class of the first dimension of most inputs (in a tie, the first class). Classes
/// that also occur in weights are a last resort, because the first dimension of an input may be a
/// width, for example in a mask of activations.
static int findBatch(const Plan &plan, func::FuncOp main) {
  llvm::MapVector<int, int> votes;
  for (BlockArgument input : main.getArguments()) {
    if (cast<RankedTensorType>(input.getType()).getRank() == 0)
      continue;
    FactorClasses::Classes first = plan.classes.getClasses(input, 0);
    if (!first.empty())
      ++votes[first.front()];
  }
  auto rank = [&](std::pair<int, int> vote) {
    bool ofWeights = llvm::any_of(plan.getUses(vote.first),
                                  [](ClassUse use) { return isa<ParameterOp>(use.op); });
    return std::pair(!ofWeights, vote.second);
  };
  auto best =
      llvm::max_element(votes, [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
  return best == votes.end() ? -1 : best->first;
}

LogicalResult mlir::tpc::applyDataTactic(Plan &plan) {
  int64_t replicas = plan.spec.grid.size(::tpc::Axis::DP);
  int64_t microBatches = plan.spec.microBatches;
  if (replicas == 1 && microBatches == 1)
    return success();
  // With `manual`, only annotations split over dp, but this tactic still splits over mb.
  bool optional = plan.spec.manual && microBatches == 1;

  auto main = plan.module.lookupSymbol<func::FuncOp>("main");
  std::string wanted;
  if (replicas > 1)
    wanted = "dp" + std::to_string(replicas);
  if (microBatches > 1)
    wanted += (wanted.empty() ? "mb" : ",mb") + std::to_string(microBatches);

  int batch = findBatch(plan, main);
  if (optional && (batch < 0 || plan.getAxes(batch).empty()))
    return success();
  if (batch < 0)
    return emitError(main.getLoc()) << "no input has a batch dimension that " << wanted
                                    << " could split: every first dimension has size 1";
  // Replicas can exchange samples; micro-batches cannot, because a rank has one at a time.
  WholeBatch whole = findWholeBatch(plan, batch, microBatches > 1);
  if (!whole.blockers.empty())
    return reportBlocker(plan, batch, whole.blockers.front(), wanted);

  if (auto samples = plan.classes.getSize(batch).asConstant()) {
    auto warn = [&](StringRef what, int64_t count, int64_t useful) {
      std::string one = what == "dp" ? " replicas" : " micro-batches";
      plan.warnings.push_back(what.str() + std::to_string(count) + ": " +
                              std::to_string(count - useful) + " of " + std::to_string(count) +
                              one + " have no sample of " + std::to_string(*samples) + "; with " +
                              what.str() + std::to_string(useful) + " all have some");
    };
    if (replicas > *samples)
      warn("dp", replicas, *samples);
    else if (microBatches > *samples / replicas)
      warn("mb", microBatches, *samples / replicas);
  }

  TacticRecord record{"dp"};
  std::string text = "batch " + plan.classes.getSize(batch).str();
  bool annotated = plan.hasAxis({batch}, "dp");
  if (replicas > 1 && !annotated && (plan.spec.manual || plan.decided.contains(batch))) {
    text += " on every replica, as annotated";
  } else if (replicas > 1) {
    // The ranks of ep are innermost: they gather consecutive samples.
    SmallVector<StringAttr> axes = plan.getAtoms("dp");
    llvm::stable_sort(axes, [](StringAttr a, StringAttr b) {
      return !::tpc::isInView(a.getValue(), "ep") && ::tpc::isInView(b.getValue(), "ep");
    });
    if (!annotated)
      llvm::append_range(plan.axes[batch], axes);
    plan.expectCommunication(batch, axes, "batch", "dp", record);
    text += " over " + std::to_string(replicas) + " replicas";
  }
  if (microBatches > 1) {
    plan.addAxis(batch, StringAttr::get(plan.module.getContext(), "mb"));
    text += ", " + std::to_string(microBatches) + " micro-batches";
  }
  keepWhole(plan, batch, whole);
  if (size_t count = llvm::count_if(whole.ops, [](Operation *op) { return op->getNumOperands(); }))
    text += "; whole in " + std::to_string(count) + " ops that depend on inputs alone, such as '" +
            getSourceName(whole.ops.front()->getLoc()) + "'";
  record.splits.push_back(text);
  // Dimension over which the schedule iterates. Empty micro-batches are skipped.
  plan.module->setAttr(kBatchAttr, plan.getDim({batch}));
  if (!annotated || microBatches > 1)
    plan.records.push_back(std::move(record));
  return success();
}
