//===- TargetFlags.h - What is asked of a target ---------------------------===//

#ifndef TPC_LIB_DRIVER_TARGETFLAGS_H
#define TPC_LIB_DRIVER_TARGETFLAGS_H

#include "TpccOptions.h"
#include "tpc/Conversion/Target/TargetTraits.h"

namespace tpc {

/// Can a target do what the flags ask for?
llvm::Error checkTarget(const TpccOptions &options, const mlir::tpc::TargetTraits &target);

/// The same before the program is read, which may name its own.
llvm::Error checkTarget(const TpccOptions &options);

} // namespace tpc

#endif // TPC_LIB_DRIVER_TARGETFLAGS_H
