//===- Pinned.h - Pinned host memory --------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_PINNED_H
#define TPC_RT_CUDA_LIBRARY_PINNED_H

#include "cuda/library/Driver.h"
#include <algorithm>
#include <utility>

namespace tpc::rt::cuda {

/// Page-locked memory for asynchronous copies: from pageable memory a copy may block, or read at
/// any later time. Grows and never shrinks.
class Pinned {
public:
  explicit Pinned(const Driver &driver) : driver(&driver) {}
  Pinned(Pinned &&other) noexcept
      : driver(other.driver), memory(std::exchange(other.memory, nullptr)),
        size(std::exchange(other.size, 0)) {}
  Pinned &operator=(Pinned &&) = delete;
  ~Pinned() { free(); }

  /// Returns at least `bytes` bytes; earlier contents are lost. No copy may be in progress.
  std::byte *reserve(int64_t bytes) {
    if (bytes > size) {
      free();
      driver->check(driver->cuMemHostAlloc(&memory, static_cast<size_t>(bytes), portable),
                    "to pin host memory");
      size = bytes;
    }
    return data();
  }
  std::byte *data() const { return static_cast<std::byte *>(memory); }

private:
  void free() {
    if (memory)
      driver->cuMemFreeHost(std::exchange(memory, nullptr));
    size = 0;
  }

  const Driver *driver;
  void *memory = nullptr;
  int64_t size = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_PINNED_H
