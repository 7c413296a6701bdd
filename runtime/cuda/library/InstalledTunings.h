//===- InstalledTunings.h - Tuning results that are installed with tpc ----===//

#ifndef TPC_RT_CUDA_LIBRARY_INSTALLEDTUNINGS_H
#define TPC_RT_CUDA_LIBRARY_INSTALLEDTUNINGS_H

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tpc::rt::cuda {

/// Tables of tuning results: lines of the tuning cache (program/TuningCache.h), KEY<tab>RESULT.
/// Results are those of equal GPUs and library versions; the driver's version may differ.
class InstalledTunings {
public:
  /// Tables in ../share/tpc/tunings of this library's folder. Loaded once.
  static const InstalledTunings &ofLibrary();

  /// Reads all files of the folder, if there is one. Lines without a tab are ignored.
  explicit InstalledTunings(const std::string &folder);
  std::optional<std::string> find(std::string_view tuningKey) const;

private:
  std::unordered_map<std::string, std::string> results; ///< by key without the driver's version
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_INSTALLEDTUNINGS_H
