//===- Backing.cpp - Host memory that backs device memory -----------------===//

#include "Backing.h"

#include <cstring>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

using namespace ptx;

static uint8_t *mapFile(uint64_t bytes) {
  int file = memfd_create("simulated-device", MFD_CLOEXEC);
  if (file < 0)
    throw std::bad_alloc();
  void *mapped = MAP_FAILED;
  if (!ftruncate(file, off_t(bytes)))
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  return static_cast<uint8_t *>(mapped);
}

void Backing::assign(uint64_t bytes, uint8_t value) {
  clear();
  constexpr uint64_t smallBytes = 64 * 1024;
  if (bytes < smallBytes) {
    small.assign(bytes, value);
    return;
  }
  mapped = mapFile(bytes);
  size = bytes;
  if (value) // a new file reads as zeros and occupies no memory
    std::memset(mapped, value, bytes);
}

void Backing::clear() {
  if (mapped)
    munmap(mapped, size);
  mapped = nullptr;
  small = {};
}

namespace {
struct Pieces {
  std::mutex mutex;
  std::vector<void *> free; // pages of some are not resident
  size_t inUse = 0;
};
} // namespace

// Returns the buffers, which are never destroyed: other threads may use memory when the process
// ends.
static Pieces &pieces() {
  static auto *all = new Pieces;
  return *all;
}

static size_t wholePages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

void *ptx::takePiece(size_t bytes) {
  bytes = wholePages(bytes);
  Pieces &all = pieces();
  std::lock_guard lock(all.mutex);
  if (all.free.empty()) {
    constexpr size_t count = 64;
    uint8_t *block = mapFile(bytes * count);
    for (size_t i = 0; i < count; ++i)
      all.free.push_back(block + i * bytes);
  }
  void *piece = all.free.back();
  all.free.pop_back();
  ++all.inUse;
  return piece;
}

void ptx::givePiece(void *piece, size_t bytes) {
  Pieces &all = pieces();
  std::lock_guard lock(all.mutex);
  // If many buffers are free, further ones return their memory to the system.
  if (all.free.size() > 2048)
    madvise(piece, wholePages(bytes), MADV_REMOVE);
  all.free.push_back(piece);
  --all.inUse;
}

size_t ptx::piecesInUse() {
  Pieces &all = pieces();
  std::lock_guard lock(all.mutex);
  return all.inUse;
}
