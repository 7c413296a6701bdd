//===- Mutants.h - Mutants of a kernel's text -----------------------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_MUTANTS_H
#define TPC_TEST_UNIT_COMPAREKERNELS_MUTANTS_H

#include "KernelText.h"

namespace compare {

struct Mutant {
  std::string kind;
  size_t line;
  Statement after; // replacement statement
};

/// Returns all faults of all statements of a kernel.
std::vector<Mutant> makeMutants(const KernelText &kernel);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_MUTANTS_H
