//===- ExecutableFile.h - the file that this code was loaded from ----------------===//

#ifndef TPC_RT_CORE_EXECUTABLEFILE_H
#define TPC_RT_CORE_EXECUTABLEFILE_H

#include <string>

namespace tpc::rt {

/// The program's path: the executable, or, where a process has loaded it as a library, that.
/// Without links; empty if it is not known.
std::string ownFile();

/// The folder that it is in; empty if it is not known.
std::string ownFolder();

} // namespace tpc::rt

#endif // TPC_RT_CORE_EXECUTABLEFILE_H
