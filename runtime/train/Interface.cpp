//===- Interface.cpp - C interface for training by a host process ---------===//
//
// Implements tpc/session.h: checkpoints of a program whose steps tpc_model_run runs.
//
//===----------------------------------------------------------------------===//

#include "program/Library.h"
#include "train/Checkpoint.h"

using namespace tpc::rt;

namespace {

/// Runs `work` on the ranks of a model that trains.
void runOnRanks(tpc_model *model, const char *folder,
                const std::function<void(Execution &, const Manifest &)> &work) {
  Model &opened = usable(model);
  require(folder, "the folder");
  const Manifest &manifest = manifestOfProgram();
  if (!manifest.training)
    throw UserError("the program does not train: compile it with tpcc --train");
  opened.post([&](Execution &execution) { work(execution, manifest); }).get();
}

} // namespace

extern "C" {

int tpc_model_save(tpc_model *model, const char *folder, int64_t step) {
  return guarded([&] {
    if (step < 0)
      throw UserError("step " + std::to_string(step) + ": steps count from 1");
    runOnRanks(model, folder, [&](Execution &execution, const Manifest &manifest) {
      TrainingState state;
      state.step = step;
      saveCheckpoint(execution, manifest, folder, state);
    });
  });
}

int tpc_model_resume(tpc_model *model, const char *folder, int64_t *step) {
  return guarded([&] {
    require(step, "the pointer for the step");
    runOnRanks(model, folder, [&](Execution &execution, const Manifest &manifest) {
      *step = loadCheckpoint(execution, manifest, folder).step;
    });
  });
}

} // extern "C"
