//===- StageMarks.cpp - Ops that say in which stage they are --------------===//

#include "StageMarks.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

static std::string quote(Operation *op) { return "'" + getSourceName(op->getLoc()) + "'"; }

FailureOr<StageMarks> StageMarks::take(ModuleOp module, func::FuncOp main, int64_t stages) {
  StageMarks marks;
  Operation *outside = nullptr;
  module.walk([&](Operation *op) {
    if (op->hasAttr(kPipelineStageAttr) && op->getParentOp() != main)
      outside = outside ? outside : op;
  });
  if (outside)
    return outside->emitError() << quote(outside) << " is to be in a pipeline stage, but it is not "
                                << "in @main: say it of the call of its function";

  // Of what each op needs, and itself, the op in the latest stage.
  DenseMap<Operation *, Operation *> latest;
  for (Operation &op : main.front()) {
    Operation *&last = latest[&op];
    Operation *needed = nullptr;
    for (Value operand : op.getOperands())
      if (Operation *other =
              operand.getDefiningOp() ? latest.lookup(operand.getDefiningOp()) : nullptr)
        if (!needed || marks.stageOf[other] > marks.stageOf[needed])
          needed = other;
    last = needed;
    auto mark = dyn_cast_or_null<IntegerAttr>(op.removeDiscardableAttr(kPipelineStageAttr));
    if (!mark)
      continue;
    int64_t stage = mark.getInt();
    if (stage < 0 || stage >= stages)
      return op.emitError() << quote(&op) << " is to be in pipeline stage " << stage
                            << ", but the grid has pp" << stages;
    if (needed && marks.stageOf[needed] > stage) {
      InFlightDiagnostic diag = op.emitError()
                                << quote(&op) << " is to be in pipeline stage " << stage
                                << ", but it needs what " << quote(needed) << " computes in stage "
                                << marks.stageOf[needed] << ", and stages run one after the other";
      diag.attachNote(needed->getLoc()) << "this is in stage " << marks.stageOf[needed];
      return diag;
    }
    marks.stageOf[&op] = stage;
    last = &op;
  }
  return marks;
}

FailureOr<std::vector<StageRange>> StageMarks::getRanges(const Chain &chain, size_t stages) const {
  ArrayRef<Operation *> carried = chain.getCarried();
  Operation *before = nullptr; // the last op that says its stage
  // Stage k begins after all ops of those before it, and not after the first of its own.
  std::vector<StageRange> ranges(stages - 1, {1, carried.size()});
  for (auto [i, op] : llvm::enumerate(carried)) {
    auto it = stageOf.find(op);
    if (it == stageOf.end())
      continue;
    if (before && it->second < stageOf.lookup(before))
      return op->emitError() << quote(op) << " is to be in pipeline stage " << it->second
                             << ", but it comes after " << quote(before) << " of stage "
                             << stageOf.lookup(before);
    before = op;
    for (size_t stage = 1; stage < stages; ++stage)
      if (int64_t(stage) > it->second)
        ranges[stage - 1].first = i + 1;
      else
        ranges[stage - 1].last = std::min<size_t>(ranges[stage - 1].last, i);
  }
  for (auto [k, range] : llvm::enumerate(ranges)) {
    if (llvm::any_of(chain.getPlaces().drop_front(),
                     [&](const Chain::Place &place) { return range.contains(place.begin); }))
      continue;
    if (range.first >= carried.size())
      return carried.back()->emitError()
             << "pipeline stage " << k + 1 << " has no op: " << quote(carried.back())
             << ", the last one, is to be in an earlier stage";
    if (range.last == 0)
      return carried.front()->emitError()
             << "pipeline stage " << k << " has no op: " << quote(carried.front())
             << ", the first one, is to be in a later stage";
    size_t last = std::min<size_t>(range.last, carried.size() - 1);
    InFlightDiagnostic diag = carried[last]->emitError()
                              << "pipeline stage " << k + 1 << " cannot begin with "
                              << quote(carried[last]) << ": between it and "
                              << quote(carried[range.first - 1])
                              << " more than one activation is live";
    for (const Chain::Place &place : chain.getPlaces().drop_front())
      if (place.begin > range.last) {
        diag << "; it may begin with " << quote(carried[place.begin]);
        break;
      }
    return diag;
  }
  return ranges;
}
