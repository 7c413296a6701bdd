//===- Windows.h - Caches that keep what a window shows ---------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_WINDOWS_H
#define TPC_LIB_VERIFY_GENERATION_WINDOWS_H

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Proves that it does not matter from which token on windowed caches hold tokens: what they are
/// told to hold says only where tokens are put, and where attention with no larger a window than
/// the step says has its queries among these. Then makes the step one whose caches hold all tokens,
/// which is left to be verified.
LogicalResult widenWindows(ModuleOp step, const PlacedStep &form);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_GENERATION_WINDOWS_H
