//===- ReadFile.h - Files of text, up to a limit ---------------*- C++ -*-===//
//
// What a flag names is read without running out of memory and without an endless device.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_READFILE_H
#define TPC_SUPPORT_READFILE_H

#include <cstdint>
#include <string>

namespace tpc {

/// Larger than the text of any program.
constexpr uint64_t kMaxProgramBytes = uint64_t(16) << 30;

/// Returns why what `path` names is not read: "it is a folder", "it is a device", or "it has more
/// than 4096 bytes". Nothing for smaller files, pipes, terminals and /dev/null, which have an end,
/// and for what does not exist.
std::string describeUnreadable(const std::string &path, uint64_t maxBytes = UINT64_MAX);

/// Reads all of a file, or of a pipe. Returns what is wrong, such as "it has more than 4096 bytes",
/// or nothing. A pipe to which nothing is written for so many seconds is an error.
std::string readFile(const std::string &path, uint64_t maxBytes, std::string &bytes,
                     int maxSeconds = 60);

} // namespace tpc

#endif // TPC_SUPPORT_READFILE_H
