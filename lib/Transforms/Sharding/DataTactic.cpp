//===- DataTactic.cpp - Replicas and micro-batches ------------------------===//
//
// The batch is the first dimension of the model's inputs. Its class is split over
// dp and then, in time, over mb: no op of a transformer mixes samples, so
// this costs no communication, and inputs are whole on every rank.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

using namespace mlir;
using namespace mlir::tpc;

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

  // The class that most inputs begin with; the earliest of equals.
  llvm::MapVector<int, int> votes;
  for (BlockArgument input : main.getArguments()) {
    if (cast<RankedTensorType>(input.getType()).getRank() == 0)
      continue;
    FactorClasses::Classes first = plan.classes.getClasses(input, 0);
    if (!first.empty())
      ++votes[first.front()];
  }
  int batch = -1;
  for (auto [cls, count] : votes)
    if (batch < 0 || count > votes[batch])
      batch = cls;
  if (optional && (batch < 0 || plan.getAxes(batch).empty()))
    return success();
  if (batch < 0)
    return emitError(main.getLoc()) << "no input has a batch dimension that " << wanted
                                    << " could split: every first dimension has size 1";
  if (Operation *op = plan.classes.getWholeOp(batch)) {
    InFlightDiagnostic diag = emitError(main.getLoc())
                              << "the batch (" << plan.classes.getSize(batch).str()
                              << ", the first dimension of the inputs) cannot be split over "
                              << wanted << ": '" << getSourceName(op->getLoc()) << "' ("
                              << op->getName().getStringRef() << ") needs all of it";
    diag.attachNote(op->getLoc()) << "needed whole here; leave " << wanted << " out";
    return diag;
  }

  if (RollOp roll = microBatches > 1 ? plan.findShift(batch) : RollOp()) {
    InFlightDiagnostic diag = emitError(main.getLoc())
                              << "the batch (" << plan.classes.getSize(batch).str()
                              << ") cannot be split over mb" << microBatches << ": '"
                              << getSourceName(roll.getLoc())
                              << "' shifts along it, and of micro-batches a rank has one at a time";
    diag.attachNote(roll.getLoc()) << "shifted here; leave mb" << microBatches << " out";
    return diag;
  }

  TacticRecord record{"dp", {}, {}};
  std::string text = "batch " + plan.classes.getSize(batch).str();
  bool annotated = plan.hasAxis({batch}, "dp");
  if (replicas > 1 && !annotated && (plan.spec.manual || plan.decided.contains(batch))) {
    text += " on every replica, as annotated";
  } else if (replicas > 1) {
    if (!annotated)
      plan.addAxis(batch, "dp");
    text += " over " + std::to_string(replicas) + " replicas";
    plan.predictShifts(batch, "dp", record);
  }
  if (microBatches > 1) {
    plan.addAxis(batch, "mb");
    text += ", " + std::to_string(microBatches) + " micro-batches";
  }
  record.splits.push_back(text);
  // What the schedule repeats over, and skips where it is empty.
  plan.module->setAttr("tpc.batch", plan.getDim({batch}));
  if (!annotated || microBatches > 1)
    plan.records.push_back(std::move(record));
  return success();
}
