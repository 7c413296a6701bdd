//===- ReadPrompts.h - prompts of the command line ------------------------===//

#ifndef TPC_RT_GENERATE_READPROMPTS_H
#define TPC_RT_GENERATE_READPROMPTS_H

#include <cstdint>
#include <string>
#include <vector>

namespace tpc::rt {

/// Parses --prompt-ids: ids, or a file with one or several prompts. Throws UserError.
std::vector<std::vector<int64_t>> readPrompts(const std::string &text);

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_READPROMPTS_H
