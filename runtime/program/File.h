//===- File.h - Files by descriptor ---------------------------------------===//

#ifndef TPC_RT_PROGRAM_FILE_H
#define TPC_RT_PROGRAM_FILE_H

#include "tpc/staged_file.h"
#include <cstdint>
#include <memory>
#include <string>

namespace tpc::rt {

/// A regular file open for reading.
class File {
public:
  /// Throws UserError with `path` and the system's reason.
  explicit File(const std::string &path);
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  ~File();

  const std::string &path() const { return name; }
  int64_t size() const { return bytes; }
  int descriptor() const { return fd; }
  /// Returns whether all bytes could be read.
  bool readAt(void *to, uint64_t count, uint64_t offset) const;
  /// Waits until a write would change the file's time stamp (some milliseconds after the last
  /// write), and records size and time stamps for `change`.
  void watch();
  /// Returns the difference from the last `watch`, such as "it was written to", or nothing.
  /// Replacing the file by renaming, or removing it, does not count: the descriptor stays open.
  std::string change() const;

private:
  struct Stamp;
  Stamp readStamp() const;

  std::string name;
  int fd = -1;
  int64_t bytes = 0;
  std::unique_ptr<Stamp> watched;
};

/// Whether `path` is a readable regular file.
bool isReadableFile(const std::string &path);

/// Writes a regular file completely or not at all (tpc/staged_file.h), and a device or a pipe
/// directly.
class OutputFile {
public:
  explicit OutputFile(const std::string &path);
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();
  void write(const void *data, uint64_t count);
  void commit();
  /// Throws UserError if `path` is not writable; writes nothing. `makesFolders`: missing folders
  /// would be created.
  static void check(const std::string &path, bool makesFolders);

private:
  [[noreturn]] void refuse(int error);
  std::string name;
  StagedFile staged; // for regular files
  int fd = -1;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_FILE_H
