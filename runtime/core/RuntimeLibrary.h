//===- RuntimeLibrary.h - libraries that come with the runtime ------------===//
//
// What few programs need (MPI's shim, GPUs) is no part of executables, but a library that is loaded
// when it is asked for.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_RUNTIMELIBRARY_H
#define TPC_RT_CORE_RUNTIMELIBRARY_H

#include <string>

namespace tpc::rt {

/// Loads `name` with these flags of dlopen: from TPC_RUNTIME_DIR, beside the executable, where the
/// compiler found the runtime. Null: `problem` goes on after "…, but ".
void *loadRuntimeLibrary(const std::string &name, int flags, std::string &problem);

} // namespace tpc::rt

#endif // TPC_RT_CORE_RUNTIMELIBRARY_H
