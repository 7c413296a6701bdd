//===- ExecutableFile.cpp - File that this code was loaded from -----------===//

#include "core/ExecutableFile.h"
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace tpc::rt {

std::string ownFile() {
  static const char anchor = 0;
  Dl_info info;
  link_map *library = nullptr;
  if (!dladdr1(&anchor, &info, reinterpret_cast<void **>(&library), RTLD_DL_LINKMAP) || !library)
    return "";
  char path[PATH_MAX];
  if (*library->l_name)
    return realpath(library->l_name, path) ? path : "";
  // The link map has no name for the main executable. If the file was deleted, the target of the
  // symbolic link still contains its folder.
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
}

std::string ownFolder() {
  std::string file = ownFile();
  return file.empty() ? "" : file.substr(0, file.find_last_of('/'));
}

} // namespace tpc::rt
