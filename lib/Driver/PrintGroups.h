//===- PrintGroups.h - Process groups of ranks ------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_PRINTGROUPS_H
#define TPC_LIB_DRIVER_PRINTGROUPS_H

#include "tpc/Support/ShardSpec.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Prints the groups of each token as JSON, {"tp": [[0,1],[2,3]]}, or as text. Valid tokens are
/// axes of the dense grid ("tp", "tp-dp", …), axes of the experts' grid ("expert:ep",
/// "expert:tp-ep", …), "embedding" and "position-embedding". For an invalid token returns false and
/// sets `error`.
bool printGroups(const ShardSpec &spec, llvm::ArrayRef<std::string> tokens, bool json,
                 llvm::raw_ostream &os, std::string &error);

} // namespace tpc

#endif // TPC_LIB_DRIVER_PRINTGROUPS_H
