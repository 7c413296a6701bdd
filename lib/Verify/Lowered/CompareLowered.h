//===- CompareLowered.h - Randomized check of lowered programs --*- C++ -*-===//
//
// Runs buffers and kernels of a compiled program in doubles, on all ranks of a small grid, and
// compares the outputs with the model's.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H
#define TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H

#include "../Interpret/Coverage.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::lowered {

/// `staged`: the program from which `lowered` was created. Errors name an op with an invalid
/// access, or the first difference of an output. If the model cannot be run at small sizes,
/// compares nothing, and the report has the reason. The report lists windows of the model that no
/// run exercises. An unexercised window is an error unless `proved`, which means that tensor
/// functions (including windows) and constants of `lowered` have been compared with `staged`.
LogicalResult compareLowered(ModuleOp model, ModuleOp staged, ModuleOp lowered, bool proved,
                             interpret::RunReport &report);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H
