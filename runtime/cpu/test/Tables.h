//===- Tables.h - All kernel tables that this machine supports ------------===//

#ifndef TPC_RT_CPU_TEST_TABLES_H
#define TPC_RT_CPU_TEST_TABLES_H

#include "cpu/Kernels.h"
#include <vector>

namespace tpc::rt {

extern const KernelTable wideKernels;

inline std::vector<const KernelTable *> allTables() {
  std::vector<const KernelTable *> tables = {&wideKernels};
  for (const char *name : {"generic", "avx2", "avx512"})
    if (const KernelTable *table = kernelsNamed(name))
      tables.push_back(table);
  return tables;
}

/// Deterministic numbers in [-1, 1).
inline std::vector<float> numbers(int64_t count, uint32_t seed = 1) {
  std::vector<float> result(count);
  for (float &x : result) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return result;
}

} // namespace tpc::rt

#endif // TPC_RT_CPU_TEST_TABLES_H
