//===- RoutingFile.h - Routing of tokens in a NumPy file --------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_ROUTINGFILE_H
#define TPC_LIB_DRIVER_ROUTINGFILE_H

#include "tpc/Analysis/ReportExperts.h"

#include "llvm/Support/Error.h"

namespace tpc {

/// Reads an array [tokens, experts] or [layers, tokens, experts] of numbers or booleans from a .npy
/// file (row-major, little-endian). Elements that are not 0 are selected experts. Errors name the
/// file.
llvm::Expected<mlir::tpc::Routing> readRouting(const std::string &path);

} // namespace tpc

#endif // TPC_LIB_DRIVER_ROUTINGFILE_H
