//===- Coverage.h - Tables of op coverage and executable facts --*- C++ -*-===//

#ifndef TPC_DRIVER_COVERAGE_H
#define TPC_DRIVER_COVERAGE_H

#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Prints docs/reference/coverage.md: for each op of the dialect and each concern, whether a model
/// is registered. Returns false, with errors, if an op lacks a model without a listed reason, or
/// has one although it is listed as not needing it.
bool printCoverage(llvm::raw_ostream &os);

/// Prints docs/reference/facts.md: each fact of an executable, and the verifier that covers it.
void printFacts(llvm::raw_ostream &os);

/// Prints docs/reference/onnx-operators.md: the ONNX operators that are imported, with their
/// operator sets and limits.
void printOnnxOps(llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_DRIVER_COVERAGE_H
