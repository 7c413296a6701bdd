//===- StageMarks.cpp - Ops that say in which stage they are --------------===//

#include "StageMarks.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

static std::string quote(Operation *op) { return "'" + getSourceName(op->getLoc()) + "'"; }

FailureOr<StageMarks::Mark> StageMarks::read(Operation *op, Attribute attr, int64_t stages) {
  Mark mark;
  if (auto one = dyn_cast<IntegerAttr>(attr)) {
    mark = {one.getInt(), one.getInt()};
  } else {
    mark = {stages, -1};
    for (auto fields : cast<ArrayAttr>(attr).getAsRange<DictionaryAttr>()) {
      int64_t stage = fields.getAs<IntegerAttr>("stage").getInt();
      mark.first = std::min(mark.first, stage);
      mark.last = std::max(mark.last, stage);
      mark.stageOf[fields.getAs<StringAttr>("node")] = stage;
    }
  }
  for (int64_t stage : {mark.first, mark.last})
    if (stage < 0 || stage >= stages)
      return op->emitError() << quote(op) << " is to be in pipeline stage " << stage
                             << ", but the grid has pp" << stages;
  return mark;
}

FailureOr<StageMarks> StageMarks::take(ModuleOp module, func::FuncOp main, int64_t stages) {
  StageMarks result;
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
  auto last = [&](Operation *op) { return op ? result.lookup(op)->last : -1; };
  for (Operation &op : main.front()) {
    Operation *needed = nullptr;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (Operation *other = latest.lookup(producer); last(other) > last(needed))
          needed = other;
    latest[&op] = needed;
    Attribute attr = op.removeDiscardableAttr(kPipelineStageAttr);
    if (!attr)
      continue;
    FailureOr<Mark> mark = read(&op, attr, stages);
    if (failed(mark))
      return failure();
    if (last(needed) > mark->first) {
      InFlightDiagnostic diag = op.emitError()
                                << quote(&op) << " is to be in pipeline stage " << mark->first
                                << ", but it needs what " << quote(needed) << " computes in stage "
                                << last(needed) << ", and stages run one after the other";
      diag.attachNote(needed->getLoc()) << "this is in stage " << last(needed);
      return diag;
    }
    result.marks[&op] = std::move(*mark);
    latest[&op] = &op;
  }
  return result;
}

StageMarks
StageMarks::apply(const DenseMap<Operation *, SmallVector<Operation *>> &standIns) const {
  StageMarks result;
  for (auto &[op, mark] : marks)
    for (Operation *other : standIns.lookup(op)) {
      if (mark.stageOf.empty()) {
        result.marks[other] = mark;
        continue;
      }
      Mark part{mark.last, mark.first};
      auto call = cast<func::CallOp>(other);
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      for (Operation &inner : callee.front()) {
        // What has no operands is wherever it is needed.
        if (inner.getNumOperands() == 0)
          continue;
        SmallVector<std::string> names;
        collectNodeNames(inner.getLoc(), names);
        for (const std::string &name : names)
          if (auto it = mark.stageOf.find(StringAttr::get(inner.getContext(), name));
              it != mark.stageOf.end()) {
            part.first = std::min(part.first, it->second);
            part.last = std::max(part.last, it->second);
          }
      }
      // Nothing is said of this part.
      if (part.first <= part.last)
        result.marks[other] = std::move(part);
    }
  return result;
}

FailureOr<std::vector<StageRange>> StageMarks::getRanges(const Chain &chain, size_t stages) const {
  ArrayRef<Operation *> carried = chain.getCarried();
  Operation *before = nullptr; // the last op that says its stage
  // Stage k begins after all ops of those before it, and not after the first of its own.
  std::vector<StageRange> ranges(stages - 1, {1, carried.size()});
  for (auto [i, op] : llvm::enumerate(carried)) {
    const Mark *mark = lookup(op);
    if (!mark)
      continue;
    if (before && mark->first < lookup(before)->last)
      return op->emitError() << quote(op) << " is to be in pipeline stage " << mark->first
                             << ", but it comes after " << quote(before) << " of stage "
                             << lookup(before)->last;
    before = op;
    for (int64_t stage = 1; stage < int64_t(stages); ++stage) {
      StageRange &range = ranges[stage - 1];
      if (stage > mark->first)
        range.first = i + 1;
      if (stage <= mark->last)
        range.last = std::min<size_t>(range.last, i);
    }
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
    std::string before = quote(carried[range.first - 1]), with = quote(carried[last]);
    // Both may be within one layer.
    if (last + 1 == range.first) {
      bool isBehind = false;
      for (auto &[name, stage] : lookup(carried[last])->stageOf) {
        std::string text = "'" + name.str() + "'";
        if (stage <= int64_t(k))
          before = text;
        else if (!std::exchange(isBehind, true))
          with = text;
      }
    }
    InFlightDiagnostic diag = carried[last]->emitError()
                              << "pipeline stage " << k + 1 << " cannot begin with " << with
                              << ": between it and " << before
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
