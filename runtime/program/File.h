//===- File.h - files by descriptor ---------------------------------------===//

#ifndef TPC_RT_PROGRAM_FILE_H
#define TPC_RT_PROGRAM_FILE_H

#include <cstdint>
#include <string>

namespace tpc::rt {

/// A regular file that is open for reading.
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
  /// Whether all of the bytes could be read.
  bool readAt(void *to, uint64_t count, uint64_t offset) const;

private:
  std::string name;
  int fd = -1;
  int64_t bytes = 0;
};

/// Whether there is a regular file that may be read.
bool isReadableFile(const std::string &path);

/// Writes a file completely or not at all. The temporary file beside it is removed unless `commit`
/// succeeds.
class OutputFile {
public:
  explicit OutputFile(const std::string &path);
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();
  void write(const void *data, uint64_t count);
  void commit();

private:
  [[noreturn]] void refuse(const char *what);
  void giveName();
  std::string name, target, temporary; // the target is what a link leads to
  int fd = -1;
  bool isNameless = false;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_FILE_H
