//===- Coverage.h - What is known of which op -------------------*- C++ -*-===//

#ifndef TPC_DRIVER_COVERAGE_H
#define TPC_DRIVER_COVERAGE_H

#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Prints docs/reference/coverage.md: for each op of the dialect and each concern whether the op
/// has a model, as the registered interfaces say. False, with errors, where an op has none and
/// nothing says why, or has one although something says that it needs none.
bool printCoverage(llvm::raw_ostream &os);

/// Prints docs/reference/facts.md: each fact of an executable, and the verifier that covers it.
void printFacts(llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_DRIVER_COVERAGE_H
