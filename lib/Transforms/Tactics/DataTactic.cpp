//===- DataTactic.cpp - Replicas and micro-batches ------------------------===//
//
// The batch is the first dimension of the model's inputs. Its class is split over
// dp and then, in time, over mb: hardly an op of a transformer mixes samples, so
// this costs no communication, and inputs are whole on every rank. See WholeBatch.cpp for those
// that do.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

using namespace mlir;
using namespace mlir::tpc;

static LogicalResult refuse(const Plan &plan, int batch, const WholeBatch::Stuck &stuck,
                            std::string wanted) {
  if (!stuck.always)
    wanted = "mb" + std::to_string(plan.spec.microBatches);
  auto main = plan.module.lookupSymbol<func::FuncOp>("main");
  auto name = [](Operation *op) {
    return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
  };
  InFlightDiagnostic diag = emitError(main.getLoc())
                            << "the batch (" << plan.classes.getSize(batch).str()
                            << ", the first dimension of the inputs) cannot be split over "
                            << wanted << ": " << name(stuck.op) << " " << stuck.why;
  if (!stuck.always)
    diag << ", and of micro-batches a rank has one at a time";
  diag.attachNote(stuck.op->getLoc()) << "needed whole here; leave " << wanted << " out";
  if (stuck.source && stuck.source != stuck.op)
    diag.attachNote(stuck.source->getLoc())
        << "what depends on inputs alone may be whole, but this depends on " << name(stuck.source);
  return diag;
}

/// What is whole in each micro-batch, or on each replica, although it has samples.
static void keepWhole(Plan &plan, int batch, const WholeBatch &whole) {
  MLIRContext *context = plan.module.getContext();
  auto dp = StringAttr::get(context, "dp"), time = StringAttr::get(context, "mb");
  for (Operation *op : whole.ops)
    for (StringAttr axis : {dp, time})
      plan.yield(Plan::getPlace(op), batch, axis);
  // Weights are loaded before there is a micro-batch.
  for (ClassUse use : plan.getUses(batch))
    if (isa<ParameterOp>(use.op))
      plan.yield(Plan::getPlace(use.op), batch, time);
  for (auto function : plan.module.getOps<func::FuncOp>())
    if (function.getName() != "main")
      for (BlockArgument argument : function.getArguments())
        if (!plan.getParameters(argument).empty())
          plan.yield(Plan::getPlace(argument), batch, time);
}

/// The class that most inputs begin with; the earliest of equals. One that weights have as well (an
/// input may begin with the width of what it masks) is that of samples only if there is no other.
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
  // With `manual`, only annotations split over dp; micro-batches remain asked for.
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
  // Of micro-batches a rank has one at a time, replicas can communicate.
  WholeBatch whole = findWholeBatch(plan, batch, microBatches > 1);
  if (!whole.stuck.empty())
    return refuse(plan, batch, whole.stuck.front(), wanted);

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
    if (!annotated)
      plan.addAxis(batch, "dp");
    text += " over " + std::to_string(replicas) + " replicas";
    plan.claimCommunication(batch, "dp", "batch", record);
  }
  if (microBatches > 1) {
    plan.addAxis(batch, "mb");
    text += ", " + std::to_string(microBatches) + " micro-batches";
  }
  keepWhole(plan, batch, whole);
  if (size_t count = llvm::count_if(whole.ops, [](Operation *op) { return op->getNumOperands(); }))
    text += "; whole in " + std::to_string(count) + " ops that depend on inputs alone, such as '" +
            getSourceName(whole.ops.front()->getLoc()) + "'";
  record.splits.push_back(text);
  // What the schedule repeats over, and skips where it is empty.
  plan.module->setAttr(kBatchAttr, plan.getDim({batch}));
  if (!annotated || microBatches > 1)
    plan.records.push_back(std::move(record));
  return success();
}
