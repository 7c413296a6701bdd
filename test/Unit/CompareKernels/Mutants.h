//===- Mutants.h - Mistakes in the text of a kernel -----------------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_MUTANTS_H
#define TPC_TEST_UNIT_COMPAREKERNELS_MUTANTS_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace compare {

struct Mutant {
  std::string kind;
  std::string before, after; // the statement
  std::string text;          // of a program with this kernel alone
};

/// The text without other kernels.
std::string getOnly(llvm::StringRef ptx, llvm::StringRef kernel);
/// Each mistake at each place of such a text.
std::vector<Mutant> makeMutants(llvm::StringRef only);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_MUTANTS_H
