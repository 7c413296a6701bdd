//===- Cores.cpp - Number of usable CPU cores -----------------------------===//

#include "core/Cores.h"
#include "core/ControlGroup.h"
#include <algorithm>
#include <climits>
#include <cmath>
#include <sched.h>

namespace tpc::rt {

int quotaCores() {
  double cores = ControlGroup().cpuQuota();
  return cores < INT_MAX ? std::max(1, static_cast<int>(std::ceil(cores))) : INT_MAX;
}

int usableCores() {
  int cores = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    cores = CPU_COUNT(&set);
  return std::clamp(cores, 1, quotaCores());
}

} // namespace tpc::rt
