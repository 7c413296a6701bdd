//===- CountCalls.h - Calls and kernels of a staged program -----*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_COUNTCALLS_H
#define TPC_LIB_DRIVER_COUNTCALLS_H

#include "tpc/Analysis/Report.h"

namespace tpc {

/// Returns the number of library calls and kernels in each function of a staged program; empty if
/// lowering fails.
std::vector<mlir::tpc::FunctionRow> countCalls(mlir::ModuleOp staged);

} // namespace tpc

#endif // TPC_LIB_DRIVER_COUNTCALLS_H
