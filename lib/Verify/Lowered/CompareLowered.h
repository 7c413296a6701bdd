//===- CompareLowered.h - The program that runs, run at small sizes -*- C++ -*-=//
//
// The randomized check of what is compiled: buffers and kernels are run in doubles on all ranks of
// a small grid and compared with the model.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H
#define TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H

#include "../Interpret/Coverage.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::lowered {

/// `staged` is the program that `lowered` was made of. Errors say which op did what it must not, or
/// where an output differs from the model's. Where the model cannot be run at small sizes nothing
/// is compared, and the report says why. If no run exercises one of the model's windows, that is
/// reported as well, and an error unless `proved`: the tensors, with their windows, and constants
/// of `lowered` have been compared with `staged`.
LogicalResult compareLowered(ModuleOp model, ModuleOp staged, ModuleOp lowered, bool proved,
                             interpret::RunReport &report);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_COMPARELOWERED_H
