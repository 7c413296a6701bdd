//===- CountCalls.h - What functions of a plan call -------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_COUNTCALLS_H
#define TPC_LIB_DRIVER_COUNTCALLS_H

#include "tpc/Analysis/Report.h"

namespace tpc {

/// The calls of libraries and kernels in each function of a staged program, as it would be planned;
/// nothing if it cannot be.
std::vector<mlir::tpc::FunctionRow> countCalls(mlir::ModuleOp staged);

} // namespace tpc

#endif // TPC_LIB_DRIVER_COUNTCALLS_H
