//===- SourceBytes.h - Bytes of a parameter's source tensor ---------------===//

#ifndef TPC_RT_PROGRAM_SOURCEBYTES_H
#define TPC_RT_PROGRAM_SOURCEBYTES_H

#include "program/Mapping.h"
#include "program/View.h"
#include <optional>

namespace tpc::rt {

/// The source tensor in the file's mapping; or, if it has parts, a copy of the parts that a view
/// reads. Other parts of the copy are zeros, and take no memory.
class SourceBytes {
public:
  /// Throws UserError if the bytes cannot be mapped or read.
  SourceBytes(const File &file, const Parameter &parameter, const LocalView &view);
  SourceBytes(const SourceBytes &) = delete;
  SourceBytes &operator=(const SourceBytes &) = delete;
  ~SourceBytes();

  const std::byte *data() const { return mapping ? mapping->data() : copy; }
  /// Throws UserError unless all bytes that were read came from the file.
  void check() const;

private:
  std::optional<Mapping> mapping;
  std::byte *copy = nullptr;
  size_t length = 0;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SOURCEBYTES_H
