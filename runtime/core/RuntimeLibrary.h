//===- RuntimeLibrary.h - Runtime libraries loaded on demand --------------===//
//
// Libraries that few programs need (the MPI shim, the GPU runtime) are not linked into executables
// but loaded on demand.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_RUNTIMELIBRARY_H
#define TPC_RT_CORE_RUNTIMELIBRARY_H

#include <string>

namespace tpc::rt {

/// Loads `name` with dlopen flags `flags` from TPC_RUNTIME_DIR, the program's folder, its ../lib,
/// or the dynamic linker's path. Returns null on failure; then `problem` completes "…, but ".
void *loadRuntimeLibrary(const std::string &name, int flags, std::string &problem);

} // namespace tpc::rt

#endif // TPC_RT_CORE_RUNTIMELIBRARY_H
