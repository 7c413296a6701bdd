//===- PrintGroups.h - Process groups of ranks ------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_PRINTGROUPS_H
#define TPC_LIB_DRIVER_PRINTGROUPS_H

#include "tpc/Support/ShardSpec.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Prints the groups of each of `tokens` as JSON, {"tp": [[0,1],[2,3]]}, or as text: axes of the
/// dense grid ("tp", "tp-dp", …) or of the experts' ("expert:ep", "expert:tp-ep", …), "embedding"
/// or "position-embedding". Returns false and sets `error` if a token is none of these.
bool printGroups(const ShardSpec &spec, llvm::ArrayRef<std::string> tokens, bool json,
                 llvm::raw_ostream &os, std::string &error);

} // namespace tpc

#endif // TPC_LIB_DRIVER_PRINTGROUPS_H
