//===- DryRunLibraries.cpp - Dry-run CUDA libraries that count memory -----===//

#include "cuda/library/DryRunLibraries.h"
#include <algorithm>
#include <cstdlib>
#include <type_traits>

namespace tpc::rt::cuda {
namespace {

constexpr int64_t page = 2 << 20, largeFrom = 1 << 20, unit = 512;

int64_t roundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

/// Sets an output parameter.
template <class T> void setOutput(T) {}
template <class T>
  requires std::is_arithmetic_v<T> && (!std::is_const_v<T>)
void setOutput(T *number) {
  if (number)
    *number = 0;
}
/// A handle: an opaque pointer.
template <class T>
  requires std::is_class_v<T>
void setOutput(T **handle) {
  if (handle)
    *handle = reinterpret_cast<T *>(alignof(std::max_align_t));
}

/// Sets `function` to one that does nothing and returns success.
template <class Result, class... Arguments> void makeNothing(Result (*&function)(Arguments...)) {
  function = [](Arguments... arguments) -> Result {
    (setOutput(arguments), ...);
    return {};
  };
}

} // namespace

DryRunMemory &DryRunMemory::ofThread() {
  static thread_local DryRunMemory memory;
  return memory;
}

void DryRunMemory::add(const Piece &piece, int64_t sign) {
  auto size = static_cast<int64_t>(piece.bytes);
  if (piece.inPages || size >= largeFrom)
    large += sign * roundUp(size, page);
  else
    small += sign * roundUp(size, unit);
  use.now = large + roundUp(small, page);
  use.peak = std::max(use.peak, use.now);
  use.requested += sign * size;
  use.peakRequested = std::max(use.peakRequested, use.requested);
}

Address DryRunMemory::allocate(size_t bytes, bool inPages) {
  if (!next)
    next = page;
  Address address = next;
  next += static_cast<Address>(roundUp(static_cast<int64_t>(bytes), page));
  add(pieces[address] = {bytes, inPages}, 1);
  return address;
}

void DryRunMemory::release(Address address) {
  auto piece = pieces.find(address);
  if (piece == pieces.end())
    return;
  add(piece->second, -1);
  pieces.erase(piece);
}

DryRunLibraries::DryRunLibraries(const Driver &real, const blas::Library &realBlas) {
#define TPC_MAKE_NOTHING(name, arguments) makeNothing(driver.name);
  TPC_DRIVER_FUNCTIONS(TPC_MAKE_NOTHING)
#undef TPC_MAKE_NOTHING
#define TPC_MAKE_NOTHING(name, arguments) makeNothing(library.name);
  TPC_CUBLASLT_FUNCTIONS(TPC_MAKE_NOTHING)
#undef TPC_MAKE_NOTHING
#define TPC_MAKE_NOTHING(name, arguments) makeNothing(nccl.name);
  TPC_NCCL_FUNCTIONS(TPC_MAKE_NOTHING)
  TPC_NCCL_MEMORY_FUNCTIONS(TPC_MAKE_NOTHING)
#undef TPC_MAKE_NOTHING

  driver.version = real.version;
  driver.isReal = false;
  driver.cuGetErrorName = real.cuGetErrorName;
  driver.cuGetErrorString = real.cuGetErrorString;
  driver.cuMemAlloc_v2 = [](Address *address, size_t bytes) {
    *address = DryRunMemory::ofThread().allocate(bytes);
    return success;
  };
  driver.cuMemFree_v2 = [](Address address) {
    DryRunMemory::ofThread().release(address);
    return success;
  };
  driver.cuMemHostAlloc = [](void **host, size_t bytes, unsigned) {
    *host = std::calloc(bytes, 1); // untouched pages use no memory
    return *host ? success : outOfMemory;
  };
  driver.cuMemFreeHost = [](void *host) {
    std::free(host);
    return success;
  };

  library.GetVersion = realBlas.GetVersion;
  library.MatmulAlgoGetHeuristic = [](blas::Handle, blas::MatmulDesc, blas::Layout, blas::Layout,
                                      blas::Layout, blas::Layout, blas::Preference, int,
                                      blas::Heuristic *found, int *count) {
    *found = {};
    *count = 1;
    return blas::success;
  };
  nccl.MemAlloc = [](void **memory, size_t bytes) {
    *memory = reinterpret_cast<void *>(DryRunMemory::ofThread().allocate(bytes, /*inPages=*/true));
    return nccl::success;
  };
  nccl.MemFree = [](void *memory) {
    DryRunMemory::ofThread().release(reinterpret_cast<Address>(memory));
    return nccl::success;
  };
  nccl.GetErrorString = [](nccl::Status) { return ""; };
  nccl.GetLastError = [](nccl::Comm) { return ""; };
}

} // namespace tpc::rt::cuda
