//===- Windows.h - Proof of sliding-window caches ---------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_WINDOWS_H
#define TPC_LIB_VERIFY_GENERATION_WINDOWS_H

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Proves that results do not depend on tokens that sliding-window caches have dropped: the lengths
/// of these caches determine only the index at which tokens are appended, and the positions of
/// queries in attention ops whose window is at most the step's window. Then replaces sliding-window
/// caches by caches of all tokens; the caller verifies the resulting program.
LogicalResult widenWindows(ModuleOp step, const PreallocatedStep &form);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_GENERATION_WINDOWS_H
