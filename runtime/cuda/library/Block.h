//===- Block.h - Owned GPU memory -----------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_BLOCK_H
#define TPC_RT_CUDA_LIBRARY_BLOCK_H

#include "core/OutOfMemory.h"
#include "cuda/library/Driver.h"

namespace tpc::rt::cuda {

/// Minimum size of an allocation; cuMemAlloc rejects 0 bytes.
constexpr int64_t minBlockBytes = 256;

inline Address addressOf(const void *pointer) { return reinterpret_cast<Address>(pointer); }
inline void *pointerTo(Address address) { return reinterpret_cast<void *>(address); }

/// Owned GPU memory. It must be unused when it is destroyed. Throws std::bad_alloc.
class Block {
public:
  Block(const Driver &driver, int64_t bytes) : bytes(bytes), driver(&driver) {
    driver.check(driver.cuCtxGetCurrent(&context), "to be used");
    Result result = driver.cuMemAlloc_v2(&address, static_cast<size_t>(bytes));
    if (result == outOfMemory)
      throw OutOfMemory::ofGpu(bytes);
    driver.check(result, "to allocate memory");
  }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  /// Frees in the block's own context, whichever context is current: one thread destroys the
  /// devices of all ranks that are threads.
  ~Block() {
    Context outer = nullptr;
    driver->cuCtxGetCurrent(&outer);
    driver->cuCtxSetCurrent(context);
    driver->cuMemFree_v2(address);
    driver->cuCtxSetCurrent(outer);
  }

  Address address = 0;
  const int64_t bytes;

private:
  const Driver *driver;
  Context context = nullptr;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_BLOCK_H
