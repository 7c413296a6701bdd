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

/// `staged` is the program that `lowered` was made from. Errors name an op with an invalid access,
/// or the first difference of an output. Compares nothing if the model cannot be run at small
/// sizes; the report then has the reason. If no run exercises one of the model's windows, the
/// report lists it. That is an error unless `proved`: tensors, with their windows, and constants of
/// `lowered` have been compared with `staged`.
LogicalResult compareLowered(ModuleOp model, ModuleOp staged, ModuleOp lowered, bool proved,
                             interpret::RunReport &report);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H
