//===- Partitioner.cpp - Tactics applied to a program ---------------------===//

#include "Partitioner.h"
#include "BuiltinTactics.h"
#include "tpc/Transforms/Annotations/AnnotatedFactors.h"
#include "tpc/Transforms/Tactics/Passes.h"

using namespace mlir;
using namespace mlir::tpc;

void Partitioner::start() {
  state.reset();
  problem.reset();
  classes.emplace(module);
  AnnotatedFactors(*classes, MeshAttr::lookup(module)).divide(module);
  problem.emplace(module, spec, *classes);
  state.emplace(*problem);
}

LogicalResult Partitioner::apply(PartitionState &to, ArrayRef<const Tactic *> tactics) const {
  for (const Tactic *tactic : tactics) {
    LogicalResult result = success();
    to.attributeTo(tactic->getName(), [&] { result = tactic->seed(to); });
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult Partitioner::run() {
  module->setAttr(kMeshAttr, makeMeshAttr(module.getContext(), spec));
  FailureOr<SmallVector<const Tactic *>> enabled =
      getTactics(spec, [&] { return emitError(module.getLoc()); });
  if (failed(enabled))
    return failure();
  SmallVector<const Tactic *> tactics;
  int64_t left = limit;
  for (const Tactic *tactic : *enabled)
    if (tactic->isRequired() || limit < 0 || left-- > 0)
      tactics.push_back(tactic);

  specializeLayers(module);
  separateUses(module);
  separateBiases(module);
  SmallVector<const Tactic *> forColumns = getTacticsFor(tactics, "columns");
  auto chooseColumns = [&](PartitionState &to) { return apply(to, forColumns); };

  start();
  if (decomposeInnerNorms(*problem, chooseColumns))
    start();
  if (failed(chooseColumns(*state)))
    return failure();
  bool splitsRows = !getTacticsFor(tactics, "rows").empty();
  if (splitsRows && decomposeResidualNorms(*state)) {
    start();
    if (failed(chooseColumns(*state)))
      return failure();
  }
  if (regroupSums(*state))
    problem->refresh();
  llvm::erase_if(tactics, [&](const Tactic *t) { return llvm::is_contained(forColumns, t); });
  return apply(*state, tactics);
}
