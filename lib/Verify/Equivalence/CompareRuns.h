//===- CompareRuns.h - Two programs over a prime field, compared -*- C++ -*-==//
//
// The randomized check of a split program: both programs are run, at small sizes, with random
// elements of a prime field in place of numbers (Interpret/Arithmetic.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H

#include "../Interpret/Coverage.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::equivalence {

/// Runs both programs and compares all outputs; errors say at which coordinates they differ. Where
/// the model cannot be run at small sizes, or no run exercises one of its windows, nothing is
/// compared, and the report says why; the latter is an error if it is not `proved`.
LogicalResult comparePrograms(ModuleOp model, ModuleOp program, bool proved,
                              interpret::RunReport &report);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H
