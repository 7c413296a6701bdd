//===- Mapping.h - Memory mapping of a file range -------------------------===//
//
// Reading mapped memory raises SIGBUS if the file has become shorter, or its disk or server fails.
// A handler catches this for objects of class Mapping: the rest of the mapping becomes zeros, and
// `check` reports the error. The handler is installed while there are such objects, and passes
// other faults to the previous handler.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_MAPPING_H
#define TPC_RT_PROGRAM_MAPPING_H

#include "program/File.h"
#include <atomic>
#include <cstddef>

namespace tpc::rt {

/// Bytes of a file, read only by the thread that creates the mapping.
class Mapping {
public:
  /// Throws UserError if mapping fails.
  Mapping(const File &file, int64_t offset, int64_t bytes);
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping();

  const std::byte *data() const { return at; }
  /// Throws UserError unless all bytes that were read came from the file.
  void check() const;

private:
  friend struct MappingFaults;
  bool catches(const void *address);

  const File &file;
  const int64_t end; ///< offset in the file
  std::byte *base = nullptr;
  size_t length = 0;
  const std::byte *at = nullptr;
  std::atomic<bool> isLost = false;
  Mapping *outer; ///< the thread's previous mapping
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MAPPING_H
