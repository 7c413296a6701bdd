//===- VendorLibrary.cpp - Run-time lookup of NVIDIA's libraries ----------===//

#include "cuda/library/VendorLibrary.h"
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace tpc::rt::cuda {
namespace {

namespace fs = std::filesystem;

std::string variable(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

/// Entries of `folder`, sorted.
std::vector<fs::path> entries(const fs::path &folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored))
    found.push_back(at->path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Library folders of NVIDIA's Python packages.
std::vector<std::string> pythonFolders() {
  std::vector<std::string> folders;
  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    std::string home = variable(name);
    if (home.empty())
      continue;
    for (const fs::path &python : entries(home + "/lib"))
      if (python.filename().string().starts_with("python3"))
        for (const fs::path &package : entries(python / "site-packages" / "nvidia"))
          folders.push_back((package / "lib").string());
  }
  return folders;
}

/// Folders to search, in order. An empty string is the loader's search path.
std::vector<std::string> folders() {
  std::vector<std::string> result;
  std::istringstream own(variable("TPC_CUDA_LIBS"));
  for (std::string folder; std::getline(own, folder, ':');)
    if (!folder.empty())
      result.push_back(folder);
  result.push_back("");
  if (std::string home = variable("CUDA_HOME"); !home.empty())
    for (const char *below : {"/lib64", "/lib", "/targets/x86_64-linux/lib"})
      result.push_back(home + below);
  for (std::string &folder : pythonFolders())
    result.push_back(std::move(folder));
  return result;
}

} // namespace

std::string fileOf(const void *function) {
  Dl_info info;
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
}

VendorLibrary::VendorLibrary(std::initializer_list<const char *> names) {
  for (const std::string &folder : folders())
    for (const char *name : names) {
      std::string path = folder.empty() ? name : folder + "/" + name;
      // RTLD_LOCAL hides the symbols from other libraries.
      if ((handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))) {
        // Path that the loader found.
        link_map *map = nullptr;
        bool isKnown = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && *map->l_name;
        file = isKnown ? map->l_name : path;
        return;
      }
      const char *reason = dlerror();
      // A file that exists but cannot be loaded is an error; the search ends.
      if (!folder.empty() && access(path.c_str(), F_OK) == 0) {
        text = path + " cannot be loaded: " + (reason ? reason : "unknown reason");
        return;
      }
    }
  for (const char *name : names)
    text += (text.empty() ? "" : " or ") + std::string(name);
  text += " was not found (by TPC_CUDA_LIBS, the loader's path, CUDA_HOME, or in an active Python)";
}

void *VendorLibrary::lookUp(const char *name, bool isNeeded) {
  if (!handle)
    return nullptr;
  void *found = dlsym(handle, name);
  if (!found && isNeeded && text.empty())
    text = file + " has no function " + name;
  return found;
}

} // namespace tpc::rt::cuda
