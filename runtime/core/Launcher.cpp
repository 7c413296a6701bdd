//===- Launcher.cpp - what the environment says ------------------------===//

#include "core/World.h"
#include <cstdlib>
#include <cstring>

namespace tpc::rt {

namespace {

/// The number in the first of the variables that is set to one; -1 otherwise.
int numberIn(std::initializer_list<const char *> names) {
  for (const char *name : names)
    if (const char *text = std::getenv(name)) {
      char *end = nullptr;
      long value = std::strtol(text, &end, 10);
      if (end != text && *end == 0 && value >= 0 && value <= 1 << 24)
        return static_cast<int>(value);
    }
  return -1;
}

} // namespace

Launcher detectLauncher() {
  Launcher launcher;
  if (const char *forced = std::getenv("TPC_TRANSPORT"))
    if (!std::strcmp(forced, "threads"))
      return launcher;
  // Slurm's own variables are also set where nothing was launched (in a batch script), PMI's are
  // not.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) {
      launcher.present = true;
      launcher.variable = name;
      break;
    }
  if (launcher.present) {
    launcher.rank = numberIn({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"});
    launcher.size = numberIn({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
  }
  return launcher;
}

} // namespace tpc::rt
