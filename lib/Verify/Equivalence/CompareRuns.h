//===- CompareRuns.h - Randomized comparison over a prime field -*- C++ -*-===//
//
// Randomized check of a split program: runs both programs at small sizes, with random elements of
// a prime field as inputs (Interpret/Arithmetic.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H

#include "../Interpret/Coverage.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::equivalence {

/// Runs both programs and compares all outputs; errors name the coordinates of the difference.
/// Compares nothing if the model cannot be run at small sizes, or if no run exercises one of its
/// windows; the report then has the reason. The latter is an error if the program is not `proved`.
LogicalResult comparePrograms(ModuleOp model, ModuleOp program, bool proved,
                              interpret::RunReport &report);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H
