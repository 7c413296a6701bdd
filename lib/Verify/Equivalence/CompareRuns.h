//===- CompareRuns.h - Randomized comparison over a prime field -*- C++ -*-===//
//
// Randomized check of a partitioned program: runs it and the model at small sizes, with random
// elements of a prime field as inputs (Interpret/Arithmetic.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H

#include "../Interpret/Coverage.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::equivalence {

/// Runs both programs and compares all outputs. Errors name the index of the first difference. If
/// the model cannot be run at small sizes, or no run exercises one of its attention windows,
/// nothing is compared and the report has the reason; an unexercised window is an error unless the
/// program is `proved`.
LogicalResult comparePrograms(ModuleOp model, ModuleOp program, bool proved,
                              interpret::RunReport &report);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_COMPARERUNS_H
