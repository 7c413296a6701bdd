//===- ExecutableFile.h - Path of the file that this code was loaded from -===//

#ifndef TPC_RT_CORE_EXECUTABLEFILE_H
#define TPC_RT_CORE_EXECUTABLEFILE_H

#include <string>

namespace tpc::rt {

/// Returns the program's path, with symbolic links resolved: the executable, or the library if a
/// process loaded the program as one. Empty if unknown.
std::string ownFile();

/// Returns the folder of that file; empty if unknown.
std::string ownFolder();

} // namespace tpc::rt

#endif // TPC_RT_CORE_EXECUTABLEFILE_H
