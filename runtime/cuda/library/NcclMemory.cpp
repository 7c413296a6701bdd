//===- NcclMemory.cpp - NCCL-allocated and registered memory --------------===//

#include "cuda/library/NcclMemory.h"
#include "cuda/library/Block.h"
#include "cuda/library/Notes.h"
#include <algorithm>

namespace tpc::rt::cuda {

NcclMemory::NcclMemory(Queue &queue, const nccl::Library *library, MemorySource &drivers)
    : queue(queue), library(library && library->registersMemory() ? library : nullptr),
      drivers(drivers) {}

void *NcclMemory::allocate(int64_t bytes) {
  if (!library || bytes < 0)
    return drivers.allocate(bytes);
  queue.enter();
  auto size = static_cast<size_t>(std::max<int64_t>(bytes, minBlockBytes));
  // NCCL gives no reason for the failure; the driver reports an error if the device has failed.
  void *memory = nullptr;
  if (library->MemAlloc(&memory, size) != nccl::success) {
    size_t ignored = 0;
    queue.driver.check(queue.driver.cuMemGetInfo_v2(&ignored, &ignored), "to allocate memory");
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(mutex);
  Piece &piece = pieces[addressOf(memory)];
  piece.bytes = static_cast<int64_t>(size);
  for (nccl::Comm comm : comms)
    registerWith(addressOf(memory), piece, comm);
  return memory;
}

// Destructors call this, possibly while the error of a failed device propagates. Errors here
// surface at the next wait.
void NcclMemory::release(void *memory) {
  if (!library)
    return drivers.release(memory);
  queue.driver.cuCtxSetCurrent(queue.context);
  // This may wait for a hung GPU, so the mutex is not locked: an abort must not block.
  InFlightOperations::Wait wait;
  queue.driver.cuStreamSynchronize(queue.stream);
  ++numFrees;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto piece = pieces.find(addressOf(memory));
    deregister(piece->second);
    pieces.erase(piece);
  }
  library->MemFree(memory);
}

void NcclMemory::registerWith(Address address, Piece &piece, nccl::Comm comm) {
  void *handle = nullptr;
  nccl::Status status =
      library->CommRegister(comm, pointerTo(address), static_cast<size_t>(piece.bytes), &handle);
  // Communication also works without registration.
  if (status != nccl::success && !std::exchange(hasFailed, true))
    addNote(library->describe() + " does not register memory: " + library->describe(status, comm));
  if (status == nccl::success)
    piece.registered[comm] = handle;
}

void NcclMemory::deregister(Piece &piece) {
  for (auto [comm, handle] : piece.registered)
    library->CommDeregister(comm, handle);
  piece.registered.clear();
}

void NcclMemory::add(nccl::Comm comm) {
  if (!library)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  comms.push_back(comm);
  for (auto &[address, piece] : pieces)
    registerWith(address, piece, comm);
}

void NcclMemory::deregister() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[address, piece] : pieces)
    deregister(piece);
  comms.clear();
}

void NcclMemory::dropRegistrations() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[address, piece] : pieces)
    piece.registered.clear();
  comms.clear();
}

} // namespace tpc::rt::cuda
