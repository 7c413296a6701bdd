//===- InstalledTunings.cpp - Tuning results that are installed with tpc --===//

#include "cuda/library/InstalledTunings.h"
#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <vector>

namespace tpc::rt::cuda {
namespace {

/// Removes ", driver 13000" from a tuning key (CudaTuning.cpp).
std::string withoutDriver(std::string_view key) {
  constexpr std::string_view begin = ", driver ";
  std::string text(key);
  if (size_t at = text.find(begin); at != std::string::npos)
    text.erase(at, text.find_first_not_of("0123456789", at + begin.size()) - at);
  return text;
}

} // namespace

const InstalledTunings &InstalledTunings::ofLibrary() {
  static const InstalledTunings tunings([] {
    Dl_info info{};
    static const char anchor = 0; // an address in this library
    if (!dladdr(&anchor, &info) || !info.dli_fname)
      return std::string();
    std::error_code ignored;
    std::filesystem::path file = std::filesystem::canonical(info.dli_fname, ignored);
    return (file.parent_path() / "../share/tpc/tunings").string();
  }());
  return tunings;
}

InstalledTunings::InstalledTunings(const std::string &folder) {
  std::error_code ignored;
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder, ignored))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path &path : files) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
      if (size_t tab = line.find('\t'); tab != std::string::npos)
        results[withoutDriver(std::string_view(line).substr(0, tab))] = line.substr(tab + 1);
  }
}

std::optional<std::string> InstalledTunings::find(std::string_view tuningKey) const {
  auto found = results.find(withoutDriver(tuningKey));
  return found == results.end() ? std::nullopt : std::optional(found->second);
}

} // namespace tpc::rt::cuda
