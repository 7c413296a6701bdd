//===- Mapping.h - a part of a file in memory -------------------*- C++ -*-===//
//
// Whoever reads memory that is a file gets SIGBUS where the file has become shorter, or its disk or
// its server does not give what it has. Of what a Mapping has that is caught: the rest of it is
// zeros from there on, and `check` says so. As long as there are any, the process has a handler,
// which leaves what is not theirs to the one before.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_MAPPING_H
#define TPC_RT_PROGRAM_MAPPING_H

#include "program/File.h"
#include <atomic>
#include <cstddef>

namespace tpc::rt {

/// Bytes of a file, for reading by the thread that makes it.
class Mapping {
public:
  /// Throws UserError where they cannot be mapped.
  Mapping(const File &file, int64_t offset, int64_t bytes);
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping();

  const std::byte *data() const { return at; }
  /// Throws UserError unless all that was read was the file's.
  void check() const;

private:
  friend struct MappingFaults;
  bool catches(const void *address);

  const File &file;
  const int64_t end; ///< in the file
  std::byte *base = nullptr;
  size_t length = 0;
  const std::byte *at = nullptr;
  std::atomic<bool> isLost = false;
  Mapping *outer; ///< the thread's before
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MAPPING_H
