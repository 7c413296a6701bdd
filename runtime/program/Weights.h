//===- Weights.h - finds, checks and loads parameters ---------------------===//

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

/// Where weights come from; shared by the ranks of a process.
struct WeightSources {
  bool isNothing = false;                   ///< elements are anything: for devices that only count
  std::optional<uint64_t> seed;             ///< drawn instead of read
  std::vector<std::unique_ptr<File>> files; ///< by index in manifest.files
  std::vector<std::string> digests;         ///< of each file, when it was opened
  std::string identity;                     ///< the seed, or digests: equal on all ranks
  bool readAll = false;                     ///< digests are of all bytes
};

/// `choice` is what --weights= says, or empty: "random:SEED", a file, or a directory. Without it
/// each file is looked for where it was when the program was compiled, then beside the executable.
/// `readAll`: digests of all bytes instead of samples. Throws UserError for files that are missing,
/// too short, or not those that were compiled.
WeightSources openWeights(const Manifest &manifest, const std::string &choice, bool readAll);

/// Throws UserError where a file of `sources` was changed since `openWeights`: where its size, its
/// time stamps, or its digest are others. Called after the last rank of the process has loaded.
void checkUnchanged(const Manifest &manifest, const WeightSources &sources);

/// The files among which `openWeights` looks, those that are there.
std::vector<std::string> weightFilesOf(const Manifest &manifest, const std::string &choice);

/// Loads the rank's part of its stage's parameters: dense ones into the context's table, right
/// sides of products packed.
void loadWeights(tpc_context &ctx, const Manifest &manifest, const WeightSources &sources);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_WEIGHTS_H
