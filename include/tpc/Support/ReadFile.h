//===- ReadFile.h - Reading of text files with limits -----------*- C++ -*-===//
//
// Reads files from command-line flags, with limits on size and time.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_READFILE_H
#define TPC_SUPPORT_READFILE_H

#include <cstdint>
#include <string>

namespace tpc {

/// Limit on the size of a textual program.
constexpr uint64_t kMaxProgramBytes = uint64_t(16) << 30;

/// Returns the reason why `path` cannot be read: "it is a folder", "it is a device", or "it has
/// more than 4096 bytes". Returns an empty string for readable files, pipes, terminals, /dev/null,
/// and paths that do not exist.
std::string describeUnreadable(const std::string &path, uint64_t maxBytes = UINT64_MAX);

/// Returns true for a pointer that Git leaves in place of a file if Git LFS did not download it.
bool isLfsPointer(const std::string &path);

/// Reads a file or a pipe until its end into `bytes`. Returns an error, such as "it has more than
/// 4096 bytes", or an empty string. A pipe without input for `maxSeconds` seconds is an error.
std::string readFile(const std::string &path, uint64_t maxBytes, std::string &bytes,
                     int maxSeconds = 10);

} // namespace tpc

#endif // TPC_SUPPORT_READFILE_H
