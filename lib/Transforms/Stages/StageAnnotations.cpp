//===- StageAnnotations.cpp - Pipeline stage annotations ------------------===//

#include "StageAnnotations.h"
#include "PipelineChain.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

FailureOr<StageAnnotations::Annotation> StageAnnotations::read(Operation *op, Attribute attr,
                                                               int64_t stages) {
  Annotation annotation;
  if (auto one = dyn_cast<IntegerAttr>(attr)) {
    annotation = {one.getInt(), one.getInt()};
  } else {
    annotation = {stages, -1};
    for (auto fields : cast<ArrayAttr>(attr).getAsRange<DictionaryAttr>()) {
      int64_t stage = fields.getAs<IntegerAttr>("stage").getInt();
      annotation.first = std::min(annotation.first, stage);
      annotation.last = std::max(annotation.last, stage);
      annotation.stageOf[fields.getAs<StringAttr>("node")] = stage;
    }
  }
  for (int64_t stage : {annotation.first, annotation.last})
    if (stage < 0 || stage >= stages)
      return op->emitError() << quote(op) << " is annotated with pipeline stage " << stage
                             << ", but the grid has pp" << stages;
  return annotation;
}

FailureOr<StageAnnotations> StageAnnotations::take(ModuleOp module, func::FuncOp main,
                                                   int64_t stages) {
  StageAnnotations result;
  Operation *outside = nullptr;
  module.walk([&](Operation *op) {
    if (op->hasAttr(kPipelineStageAttr) && op->getParentOp() != main)
      outside = outside ? outside : op;
  });
  if (outside)
    return outside->emitError() << quote(outside) << " is annotated with a pipeline stage, but it "
                                << "is not in @main: annotate the call of its function";

  // For each op: the op with the latest stage among the op and its transitive producers.
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
    FailureOr<Annotation> annotation = read(&op, attr, stages);
    if (failed(annotation))
      return failure();
    if (last(needed) > annotation->first) {
      InFlightDiagnostic diag = op.emitError() << quote(&op) << " is annotated with pipeline stage "
                                               << annotation->first << ", but it uses a result of "
                                               << quote(needed) << " from stage " << last(needed)
                                               << ", and stages run in order";
      diag.attachNote(needed->getLoc()) << "this is in stage " << last(needed);
      return diag;
    }
    result.annotations[&op] = std::move(*annotation);
    latest[&op] = &op;
  }
  return result;
}

StageAnnotations
StageAnnotations::apply(const DenseMap<Operation *, SmallVector<Operation *>> &replacements) const {
  StageAnnotations result;
  for (auto &[op, annotation] : annotations)
    for (Operation *other : replacements.lookup(op)) {
      if (annotation.stageOf.empty()) {
        result.annotations[other] = annotation;
        continue;
      }
      Annotation segment{annotation.last, annotation.first};
      auto call = cast<func::CallOp>(other);
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      for (Operation &inner : callee.front()) {
        // Ops without operands are cloned into each stage that uses them.
        if (inner.getNumOperands() == 0)
          continue;
        SmallVector<std::string> names;
        collectNodeNames(inner.getLoc(), names);
        for (const std::string &name : names)
          if (auto it = annotation.stageOf.find(StringAttr::get(inner.getContext(), name));
              it != annotation.stageOf.end()) {
            segment.first = std::min(segment.first, it->second);
            segment.last = std::max(segment.last, it->second);
          }
      }
      // Skips segments without annotations.
      if (segment.first <= segment.last)
        result.annotations[other] = std::move(segment);
    }
  return result;
}

FailureOr<std::vector<StageBeginRange>> StageAnnotations::getRanges(const PipelineChain &chain,
                                                                    size_t stages) const {
  ArrayRef<Operation *> carried = chain.getCarried();
  Operation *before = nullptr; // last annotated op
  // Stage k begins after all ops of earlier stages, at the latest with its own first op.
  std::vector<StageBeginRange> ranges(stages - 1, {1, carried.size()});
  for (auto [i, op] : llvm::enumerate(carried)) {
    const Annotation *annotation = lookup(op);
    if (!annotation)
      continue;
    if (before && annotation->first < lookup(before)->last)
      return op->emitError() << quote(op) << " is annotated with pipeline stage "
                             << annotation->first << ", but it comes after " << quote(before)
                             << " of stage " << lookup(before)->last;
    before = op;
    for (int64_t stage = 1; stage < int64_t(stages); ++stage) {
      StageBeginRange &range = ranges[stage - 1];
      if (stage > annotation->first)
        range.first = i + 1;
      if (stage <= annotation->last)
        range.last = std::min<size_t>(range.last, i);
    }
  }
  for (auto [k, range] : llvm::enumerate(ranges)) {
    if (llvm::any_of(chain.getCutPoints().drop_front(),
                     [&](const PipelineChain::CutPoint &cutPoint) {
                       return range.contains(cutPoint.begin);
                     }))
      continue;
    if (range.first >= carried.size())
      return carried.back()->emitError()
             << "pipeline stage " << k + 1 << " has no op: " << quote(carried.back())
             << ", the last one, is annotated with an earlier stage";
    if (range.last == 0)
      return carried.front()->emitError()
             << "pipeline stage " << k << " has no op: " << quote(carried.front())
             << ", the first one, is annotated with a later stage";
    size_t last = std::min<size_t>(range.last, carried.size() - 1);
    std::string before = quote(carried[range.first - 1]), with = quote(carried[last]);
    // Both ops may be within one layer.
    if (last + 1 == range.first) {
      bool isReplaced = false;
      for (auto &[name, stage] : lookup(carried[last])->stageOf) {
        std::string text = "'" + name.str() + "'";
        if (stage <= int64_t(k))
          before = text;
        else if (!std::exchange(isReplaced, true))
          with = text;
      }
    }
    InFlightDiagnostic diag = carried[last]->emitError()
                              << "pipeline stage " << k + 1 << " cannot begin with " << with
                              << ": between it and " << before
                              << " more than one activation is live";
    for (const PipelineChain::CutPoint &cutPoint : chain.getCutPoints().drop_front())
      if (cutPoint.begin > range.last) {
        diag << "; it may begin with " << quote(carried[cutPoint.begin]);
        break;
      }
    return diag;
  }
  return ranges;
}
