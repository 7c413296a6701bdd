//===- Violations.h - Seeded violations of dependent launches ---*- C++ -*-===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_VIOLATIONS_H
#define TPC_TEST_UNIT_COMPAREKERNELS_VIOLATIONS_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace compare {

/// Returns texts of a kernel for sm_90, each with one violation of tpc/dependent_launch.h.
/// `readsConstants`: the kernel reads memory of its first parameter before it waits.
std::vector<std::string> makeViolations(llvm::StringRef ptx, llvm::StringRef kernel,
                                        bool readsConstants);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_VIOLATIONS_H
