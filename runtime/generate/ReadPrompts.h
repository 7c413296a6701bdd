//===- ReadPrompts.h - Prompts of the command line ------------------------===//

#ifndef TPC_RT_GENERATE_READPROMPTS_H
#define TPC_RT_GENERATE_READPROMPTS_H

#include "generate/Request.h"

namespace tpc::rt {

/// Parses --prompt-ids: ids, or a file with one or several prompts. Throws UserError.
std::vector<std::vector<int64_t>> readPrompts(const std::string &text,
                                              const std::string &flag = "--prompt-ids");

/// Spells the shape of one source of an input, such as "[tokens, 32]".
std::string shapeOfSource(const Port &input);

/// Returns the error of a source's shape, which is that of the input without its first dimension,
/// or an empty string.
std::string problemOfSource(const Shape &shape, const Manifest &manifest);

/// Parses --source: ids as --prompt-ids, or a file with states of one or several sources for an
/// input of floats. Throws UserError.
std::vector<GenerationSource> readSources(const std::string &text, const Manifest &manifest);

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_READPROMPTS_H
