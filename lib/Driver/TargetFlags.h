//===- TargetFlags.h - Checks of target flags -------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_TARGETFLAGS_H
#define TPC_LIB_DRIVER_TARGETFLAGS_H

#include "TpccOptions.h"
#include "tpc/Conversion/Target/TargetTraits.h"

#include <optional>

namespace tpc {

/// Returns the target of --target, or the default; null if there is no such target.
const mlir::tpc::TargetTraits *findTarget(const TpccOptions &options);

/// Returns an error if the target does not support the flags.
llvm::Error checkTarget(const TpccOptions &options, const mlir::tpc::TargetTraits &target);

/// Checks the flags before the program is read. A program may specify its own target.
llvm::Error checkTarget(const TpccOptions &options);

/// Returns the number of chunks of --overlap: 1 for off, 0 for auto, nothing for an invalid value.
std::optional<int64_t> getOverlapChunks(const TpccOptions &options);

} // namespace tpc

#endif // TPC_LIB_DRIVER_TARGETFLAGS_H
