//===- Coverage.h - Tables of op coverage and executable facts --*- C++ -*-===//

#ifndef TPC_DRIVER_COVERAGE_H
#define TPC_DRIVER_COVERAGE_H

#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Prints docs/reference/coverage.md: a table of ops and the interfaces that they implement. Prints
/// errors and returns false if an op lacks an interface and is not in the list of exceptions, or
/// has an interface although it is in the list.
bool printCoverage(llvm::raw_ostream &os);

/// Prints docs/reference/facts.md: each fact of an executable, and the verifier that covers it.
void printFacts(llvm::raw_ostream &os);

/// Prints docs/reference/onnx-operators.md: the ONNX operators that are imported, with their
/// operator sets and limits.
void printOnnxOps(llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_DRIVER_COVERAGE_H
