//===- CompareRuns.h - Two programs over a prime field, compared -*- C++ -*-==//
//
// The randomized check of a split program: both programs are run, at small sizes, with random
// elements of a prime field in place of numbers (Interpret/Arithmetic.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_ANALYSIS_COMPARERUNS_H
#define TPC_LIB_ANALYSIS_COMPARERUNS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::equivalence {

/// Runs both programs and compares all outputs; errors say at which coordinates they differ. Where
/// the model cannot be run at small sizes nothing is compared, and `skipped` says why.
LogicalResult comparePrograms(ModuleOp model, ModuleOp program, std::string &skipped);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_ANALYSIS_COMPARERUNS_H
