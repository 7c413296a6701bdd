//===- HostMemory.cpp - Allocation of host memory for tensors -------------===//

#include "core/HostMemory.h"
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

namespace tpc::rt {

void *allocateTensor(size_t bytes) {
  constexpr size_t line = 64, hugePage = 2 << 20;
  if (bytes > SIZE_MAX - hugePage)
    return nullptr;
  size_t alignment = bytes >= hugePage ? hugePage : line;
  // The C library requires a multiple of the alignment; untouched pages take no memory.
  void *memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
#ifdef MADV_HUGEPAGE
  // Excludes the last part, which would be rounded up to a page.
  if (memory && bytes >= hugePage)
    madvise(memory, bytes / hugePage * hugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

MemorySource &hostMemory() {
  struct Host : MemorySource {
    void *allocate(int64_t bytes) override {
      return bytes < 0 ? nullptr : allocateTensor(static_cast<size_t>(bytes));
    }
    void release(void *memory) override { std::free(memory); }
  };
  static Host host;
  return host;
}

} // namespace tpc::rt
