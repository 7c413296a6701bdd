//===- Version.cpp - Version of tpc ---------------------------------------===//

#include "Version.h"

#include "llvm/Config/llvm-config.h"

std::string tpc::versionText() { return "tpc " TPC_VERSION " (LLVM " LLVM_VERSION_STRING ")"; }
