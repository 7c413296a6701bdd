//===- ReadFile.h - Reading of text files with limits -----------*- C++ -*-===//
//
// Reads files named by flags without exhausting memory and without reading endless devices.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_READFILE_H
#define TPC_SUPPORT_READFILE_H

#include <cstdint>
#include <string>

namespace tpc {

/// Larger than the text of any program.
constexpr uint64_t kMaxProgramBytes = uint64_t(16) << 30;

/// Returns the reason why `path` cannot be read: "it is a folder", "it is a device", or "it has
/// more than 4096 bytes". Empty for smaller files; for pipes, terminals and /dev/null, which end;
/// and for paths that do not exist.
std::string describeUnreadable(const std::string &path, uint64_t maxBytes = UINT64_MAX);

/// Reads a whole file or pipe. Returns the error, such as "it has more than 4096 bytes", or an
/// empty string. A pipe without input for `maxSeconds` seconds is an error.
std::string readFile(const std::string &path, uint64_t maxBytes, std::string &bytes,
                     int maxSeconds = 60);

} // namespace tpc

#endif // TPC_SUPPORT_READFILE_H
