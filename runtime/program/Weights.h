//===- Weights.h - Lookup, checks and loading of weight files -------------===//

#ifndef TPC_RT_PROGRAM_WEIGHTS_H
#define TPC_RT_PROGRAM_WEIGHTS_H

#include "program/File.h"
#include "program/Manifest.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct tpc_context;

namespace tpc::rt {

/// Sources of weights; shared by the ranks of a process.
struct WeightSources {
  bool isNothing = false;                   ///< elements are unspecified: for dry-run devices
  std::optional<uint64_t> seed;             ///< random weights instead of files
  std::vector<std::unique_ptr<File>> files; ///< by index in manifest.files
  std::vector<std::string> digests;         ///< digest of each file when it was opened
  std::string identity;                     ///< the seed, or the digests: equal on all ranks
  bool readAll = false;                     ///< digests cover all bytes
};

/// `choice` is the value of --weights=, or empty: "random:SEED", a file, or a directory. If empty,
/// each file is searched at its compile-time path, then in the executable's folder. `readAll`:
/// digests of all bytes instead of samples. Throws UserError for files that are missing, too short,
/// or differ from the compiled ones.
WeightSources openWeights(const Manifest &manifest, const std::string &choice, bool readAll);

/// Throws UserError if a file of `sources` has changed since `openWeights`: its size, time stamps,
/// or digest. Call after the last rank of the process has loaded.
void checkUnchanged(const Manifest &manifest, const WeightSources &sources);

/// Returns the paths that `openWeights` would search and that exist.
std::vector<std::string> weightFilesOf(const Manifest &manifest, const std::string &choice);

/// Loads the rank's part of its stage's parameters: dense ones into the context's table, right
/// operands of matmuls packed.
void loadWeights(tpc_context &ctx, const Manifest &manifest, const WeightSources &sources);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_WEIGHTS_H
