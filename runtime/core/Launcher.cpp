//===- Launcher.cpp - what the environment and the machine say ------------===//

#include "core/Cores.h"
#include "core/World.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>

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

int usableCores() {
  int cores = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    cores = CPU_COUNT(&set);
  if (FILE *file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    long long quota = 0, period = 0;
    if (std::fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
      long long whole = (quota + period - 1) / period;
      cores = whole < cores ? static_cast<int>(whole) : cores;
    }
    std::fclose(file);
  }
  return cores < 1 ? 1 : cores;
}

} // namespace tpc::rt
