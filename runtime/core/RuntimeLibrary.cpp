//===- RuntimeLibrary.cpp - Runtime libraries loaded on demand ------------===//

#include "core/RuntimeLibrary.h"
#include "core/ExecutableFile.h"
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>
#include <vector>

namespace tpc::rt {
namespace {

/// Candidate paths in the order in which they are tried. The last candidate is a bare file name:
/// the dynamic linker searches the executable's run path (the compiler's runtime folder) and its
/// default folders.
std::vector<std::string> candidates(const std::string &name) {
  std::vector<std::string> paths;
  auto add = [&](const std::string &folder) {
    if (!folder.empty())
      paths.push_back(folder + "/" + name);
  };
  if (const char *folder = std::getenv("TPC_RUNTIME_DIR"))
    add(folder);
  if (std::string folder = ownFolder(); !folder.empty()) {
    add(folder);
    add(folder + "/../lib");
  }
  paths.push_back(name);
  return paths;
}

} // namespace

void *loadRuntimeLibrary(const std::string &name, int flags, std::string &problem) {
  std::string tried;
  for (const std::string &path : candidates(name)) {
    if (void *library = dlopen(path.c_str(), flags))
      return library;
    const char *reason = dlerror();
    bool isPath = path.find('/') != std::string::npos;
    if (isPath && access(path.c_str(), F_OK) == 0) {
      problem = path + " cannot be loaded: " + (reason ? reason : "unknown reason");
      return nullptr;
    }
    if (isPath)
      tried += (tried.empty() ? "" : ", ") + path.substr(0, path.find_last_of('/'));
  }
  problem = name + " was not found (looked in " + tried +
            " and the dynamic linker's path); set TPC_RUNTIME_DIR to its folder";
  return nullptr;
}

} // namespace tpc::rt
