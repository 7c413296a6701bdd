//===- Backing.h - Host memory that backs device memory -------------------===//
//
// Large pieces lie in memory files, so that what a device holds is not counted as its process's
// own (anonymous) memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_BACKING_H
#define TPC_TEST_SIMULATOR_PTX_BACKING_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ptx {

class Backing {
public:
  Backing() = default;
  Backing(const Backing &) = delete;
  ~Backing() { clear(); }

  /// So many bytes, each with this value. Throws std::bad_alloc.
  void assign(uint64_t bytes, uint8_t value);
  void clear();
  uint8_t *data() { return mapped ? mapped : small.data(); }
  const uint8_t *data() const { return mapped ? mapped : small.data(); }

private:
  std::vector<uint8_t> small;
  uint8_t *mapped = nullptr;
  uint64_t size = 0;
};

/// Pieces for what goes with device memory, out of such files as well: a size is always the same.
/// Thread-safe.
void *takePiece(size_t bytes);
void givePiece(void *piece, size_t bytes);
/// How many are taken.
size_t piecesInUse();

} // namespace ptx

#endif
