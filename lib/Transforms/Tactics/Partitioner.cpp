//===- Partitioner.cpp - Tactics applied to a program ---------------------===//

#include "Partitioner.h"
#include "BuiltinTactics.h"
#include "tpc/Transforms/Annotations/AnnotatedFactors.h"
#include "tpc/Transforms/Tactics/Passes.h"

using namespace mlir;
using namespace mlir::tpc;

LogicalResult Partitioner::apply(ArrayRef<const Tactic *> tactics) {
  for (const Tactic *tactic : tactics) {
    LogicalResult result = success();
    state->attributeTo(tactic->getName(), [&] { result = tactic->seed(*state); });
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

  classes.emplace(module);
  AnnotatedFactors(*classes, MeshAttr::lookup(module)).divide(module);
  problem.emplace(module, spec, *classes);
  problem->decomposable = findDecomposableNorms(*problem);
  state.emplace(*problem);
  if (failed(apply(forColumns)))
    return failure();
  bool splitsRows = !getTacticsFor(tactics, "rows").empty();
  bool hasDecomposed = decomposeNorms(*state, splitsRows), hasRegrouped = regroupSums(*state);
  if (hasDecomposed || hasRegrouped)
    problem->refresh();
  // The remaining norms are needed whole.
  problem->decomposable = {};
  llvm::erase_if(tactics, [&](const Tactic *t) { return llvm::is_contained(forColumns, t); });
  if (failed(apply(tactics)))
    return failure();
  state->completeExpectations();
  return success();
}
