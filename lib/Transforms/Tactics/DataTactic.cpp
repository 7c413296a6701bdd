//===- DataTactic.cpp - Tactic of replicas and micro-batches --------------===//
//
// Splits the class of the batch, which is the first dimension of the model's inputs, over dp and
// then, in time, over mb. This causes no communication, because inputs are replicated and almost
// all ops process samples independently. WholeBatch.cpp handles ops that mix samples.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

using namespace mlir;
using namespace mlir::tpc;

static LogicalResult reportBlocker(const PartitionState &state, int batch,
                                   const WholeBatch::Blocker &blocker, std::string wanted) {
  if (!blocker.always)
    wanted = "mb" + std::to_string(state.problem.spec.microBatches);
  auto main = state.problem.module.lookupSymbol<func::FuncOp>("main");
  auto name = [](Operation *op) {
    return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
  };
  InFlightDiagnostic diag = emitError(main.getLoc())
                            << "the batch (" << state.problem.classes.getSize(batch).str()
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

constexpr llvm::StringLiteral kLoadedOnce = "weights are loaded before the first micro-batch";

/// Removes the axes of the batch at ops that process all samples in each micro-batch or replica.
static void keepWhole(PartitionState &state, int batch, const WholeBatch &whole) {
  auto time = StringAttr::get(state.problem.module.getContext(), "mb");
  SmallVector<StringAttr> axes = state.problem.getAtoms("dp");
  axes.push_back(time);
  for (Operation *op : whole.ops)
    for (StringAttr axis : axes)
      state.forbid(op, batch, axis, "the op or a reader of its result needs all samples");
  // Weights are loaded before the first micro-batch.
  for (ClassUse use : state.problem.getUses(batch))
    if (isa<ParameterOp>(use.op))
      state.forbid(use.op, batch, time, kLoadedOnce);
  for (auto function : state.problem.module.getOps<func::FuncOp>())
    if (function.getName() != "main")
      for (BlockArgument argument : function.getArguments())
        if (!state.problem.getParameters(argument).empty())
          state.forbid(argument, batch, time, kLoadedOnce);
}

/// Returns the class of the first dimension of most inputs (in a tie, the first class). Classes
/// that also occur in weights are a last resort, because the first dimension of an input may be a
/// width, for example in a mask of activations.
static int findBatch(const PartitionState &state, func::FuncOp main) {
  llvm::MapVector<int, int> votes;
  for (BlockArgument input : main.getArguments()) {
    if (cast<RankedTensorType>(input.getType()).getRank() == 0)
      continue;
    FactorClasses::Classes first = state.problem.classes.getClasses(input, 0);
    if (!first.empty())
      ++votes[first.front()];
  }
  auto rank = [&](std::pair<int, int> vote) {
    bool ofWeights = llvm::any_of(state.problem.getUses(vote.first),
                                  [](ClassUse use) { return isa<ParameterOp>(use.op); });
    return std::pair(!ofWeights, vote.second);
  };
  auto best =
      llvm::max_element(votes, [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
  return best == votes.end() ? -1 : best->first;
}

LogicalResult mlir::tpc::seedData(PartitionState &state) {
  int64_t replicas = state.problem.spec.grid.size("dp");
  int64_t microBatches = state.problem.spec.microBatches;
  if (replicas == 1 && microBatches == 1)
    return success();
  // With `manual`, only annotations split over dp, but this tactic still splits over mb.
  bool optional = state.problem.spec.manual && microBatches == 1;

  auto main = state.problem.module.lookupSymbol<func::FuncOp>("main");
  std::string wanted;
  if (replicas > 1)
    wanted = "dp" + std::to_string(replicas);
  if (microBatches > 1)
    wanted += (wanted.empty() ? "mb" : ",mb") + std::to_string(microBatches);

  int batch = findBatch(state, main);
  if (optional && (batch < 0 || state.getAxes(batch).empty()))
    return success();
  if (batch < 0)
    return emitError(main.getLoc()) << "no input has a batch dimension that " << wanted
                                    << " could split: every first dimension has size 1";
  // Replicas can exchange samples; micro-batches cannot, because a rank has one at a time.
  WholeBatch whole = findWholeBatch(state, batch, microBatches > 1);
  if (!whole.blockers.empty())
    return reportBlocker(state, batch, whole.blockers.front(), wanted);

  if (auto samples = state.problem.classes.getSize(batch).asConstant()) {
    auto warn = [&](StringRef what, int64_t count, int64_t useful) {
      std::string one = what == "dp" ? " replicas" : " micro-batches";
      state.warn(what.str() + std::to_string(count) + ": " + std::to_string(count - useful) +
                 " of " + std::to_string(count) + one + " have no sample of " +
                 std::to_string(*samples) + "; with " + what.str() + std::to_string(useful) +
                 " all have some");
    };
    if (replicas > *samples)
      warn("dp", replicas, *samples);
    else if (microBatches > *samples / replicas)
      warn("mb", microBatches, *samples / replicas);
  }

  std::string text = "batch " + state.problem.classes.getSize(batch).str();
  bool annotated = state.hasAxis({batch}, "dp");
  bool recorded = !annotated || microBatches > 1;
  if (replicas > 1 && !annotated && (state.problem.spec.manual || state.isFixed(batch))) {
    text += " on every replica, as annotated";
  } else if (replicas > 1) {
    // The ranks of ep are innermost: they gather consecutive samples.
    SmallVector<StringAttr> axes = state.problem.getAtoms("dp");
    llvm::stable_sort(axes, [&](StringAttr a, StringAttr b) {
      return !state.problem.isInView(a, "ep") && state.problem.isInView(b, "ep");
    });
    if (!annotated)
      state.assign(batch, axes, "first dimension of the inputs");
    if (recorded)
      state.expectOfClass(batch, axes, "batch", "dp");
    text += " over " + std::to_string(replicas) + " replicas";
  }
  if (microBatches > 1) {
    state.assign(batch, StringAttr::get(state.problem.module.getContext(), "mb"),
                 "first dimension of the inputs");
    text += ", " + std::to_string(microBatches) + " micro-batches";
  }
  keepWhole(state, batch, whole);
  if (size_t count = llvm::count_if(whole.ops, [](Operation *op) { return op->getNumOperands(); }))
    text += "; whole in " + std::to_string(count) + " ops that depend on inputs alone, such as '" +
            getSourceName(whole.ops.front()->getLoc()) + "'";
  if (recorded)
    state.explain(text);
  // Dimension over which the schedule iterates. Empty micro-batches are skipped.
  state.problem.module->setAttr(kBatchAttr, state.getDim({batch}));
  return success();
}
