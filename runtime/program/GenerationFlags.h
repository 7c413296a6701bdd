//===- GenerationFlags.h - what the user asks a program to generate -------===//

#ifndef TPC_RT_PROGRAM_GENERATIONFLAGS_H
#define TPC_RT_PROGRAM_GENERATIONFLAGS_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tpc::rt {

/// Flags of programs that were compiled with --generate; none: as where nothing is said.
struct GenerationOptions {
  std::vector<std::string> prompts; ///< ids, or files of them
  bool serves = false;              ///< --serve-stdin
  std::optional<int64_t> maxNewTokens, topK, maxSequence, prefillChunk, maxBatch;
  std::optional<double> temperature, topP, repetitionPenalty;
  std::optional<uint64_t> seed;
  std::vector<int64_t> stopIds;
  std::string logits; ///< a file for them; empty: none

  /// The first flag of these that was given; empty: none was.
  std::string firstFlag;
  void note(const std::string &flag) {
    if (firstFlag.empty())
      firstFlag = flag;
  }
};

/// Reads the flag, if it is one of these. `value` gives its value, once.
bool setGenerationFlag(GenerationOptions &options, const std::string &flag,
                       const std::function<std::string()> &value);

/// "12,7,99". Nothing, if it is no list of integers.
std::optional<std::vector<int64_t>> parseIds(const std::string &text);

/// What --help says of them.
std::string generationHelp(const std::string &program);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_GENERATIONFLAGS_H
