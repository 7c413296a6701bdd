//===- GenerationFlags.h - Generation flags of a program ------------------===//

#ifndef TPC_RT_PROGRAM_GENERATIONFLAGS_H
#define TPC_RT_PROGRAM_GENERATIONFLAGS_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tpc::rt {

/// Flags of programs compiled with --generate; unset members: the flag was not given.
struct GenerationOptions {
  std::vector<std::string> prompts; ///< token ids, or files with them
  std::vector<std::string> sources; ///< ids or files, for encoder-decoders
  bool serves = false;              ///< --serve-stdin
  std::optional<int64_t> maxNewTokens, topK, maxSequence, maxSource, prefillChunk, maxBatch;
  std::optional<double> temperature, topP, repetitionPenalty;
  std::optional<uint64_t> seed;
  std::vector<int64_t> stopIds;
  std::string logits; ///< output file of logits; empty: none

  /// First of these flags on the command line; empty: none.
  std::string firstFlag;
  void note(const std::string &flag) {
    if (firstFlag.empty())
      firstFlag = flag;
  }
};

/// Sets the flag, if it is one of these. `value` is called at most once and returns the flag's
/// value.
bool setGenerationFlag(GenerationOptions &options, const std::string &flag,
                       const std::function<std::string()> &value);

/// Parses "12,7,99". Returns nothing if the text is not a list of integers.
std::optional<std::vector<int64_t>> parseIds(const std::string &text);

/// Returns the --help text of these flags.
std::string generationHelp(const std::string &program);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_GENERATIONFLAGS_H
