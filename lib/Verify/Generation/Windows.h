//===- Windows.h - Proof of sliding-window caches ---------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_WINDOWS_H
#define TPC_LIB_VERIFY_GENERATION_WINDOWS_H

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Proves that results do not depend on the first token in sliding-window caches: their lengths
/// only determine where tokens are appended, and the position of queries of attention whose window
/// is at most the step's. Then replaces them by caches of all tokens, which remain to be verified.
LogicalResult widenWindows(ModuleOp step, const PreallocatedStep &form);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_GENERATION_WINDOWS_H
