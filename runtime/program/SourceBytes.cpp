//===- SourceBytes.cpp - Bytes of a parameter's source tensor -------------===//

#include "program/SourceBytes.h"
#include "program/Error.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace tpc::rt {

/// Returns the elements that a view reads, from the first to the last.
static std::pair<int64_t, int64_t> rangeOf(const LocalView &view) {
  int64_t low = view.offset, high = view.offset;
  for (const auto &dim : view.dims)
    for (const ViewFactor &factor : dim) {
      int64_t lowest = 0, highest = 0;
      for (int64_t at : factor.offsets)
        lowest = std::min(lowest, at), highest = std::max(highest, at);
      if (factor.offsets.empty()) {
        int64_t reach = std::max<int64_t>(factor.size - 1, 0) * factor.stride;
        lowest = std::min<int64_t>(reach, 0), highest = std::max<int64_t>(reach, 0);
      }
      low += lowest, high += highest;
    }
  return {low, high};
}

SourceBytes::SourceBytes(const File &file, const Parameter &parameter, const LocalView &view) {
  if (parameter.parts.empty()) {
    mapping.emplace(file, parameter.offset, parameter.bytes);
    return;
  }
  if (parameter.bytes == 0 || view.count() == 0)
    return;
  void *memory = mmap(nullptr, static_cast<size_t>(parameter.bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw UserError("cannot load '" + parameter.name + "': " + std::strerror(errno));
  copy = static_cast<std::byte *>(memory);
  length = static_cast<size_t>(parameter.bytes);
  int64_t bytes = parameter.bytes / static_cast<int64_t>(parameter.parts.size());
  int64_t elements = bytes / dtypeBytes(parameter.sourceDtype);
  auto [low, high] = rangeOf(view);
  for (int64_t part = low / elements; part <= high / elements; ++part)
    if (!file.readAt(copy + part * bytes, bytes, parameter.parts[part])) {
      munmap(copy, length);
      throw UserError("weight file '" + file.path() + "' could not be read");
    }
}

SourceBytes::~SourceBytes() {
  if (copy)
    munmap(copy, length);
}

void SourceBytes::check() const {
  if (mapping)
    mapping->check();
}

} // namespace tpc::rt
