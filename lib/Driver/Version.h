//===- Version.h - Version of tpc -------------------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_VERSION_H
#define TPC_LIB_DRIVER_VERSION_H

#include <string>

namespace tpc {

/// Returns "tpc 0.1.0 (LLVM 22.1.8)".
std::string versionText();

} // namespace tpc

#endif // TPC_LIB_DRIVER_VERSION_H
