//===- Backing.h - Host memory that backs device memory -------------------===//
//
// Large buffers reside in memory files, so that device memory is not counted as anonymous memory of
// the process.
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

  /// Allocates `bytes` bytes, each with this value. Throws std::bad_alloc.
  void assign(uint64_t bytes, uint8_t value);
  void clear();
  uint8_t *data() { return mapped ? mapped : small.data(); }
  const uint8_t *data() const { return mapped ? mapped : small.data(); }

private:
  std::vector<uint8_t> small;
  uint8_t *mapped = nullptr;
  uint64_t size = 0;
};

/// Buffers of one fixed size for metadata of device memory, also in memory files. Thread-safe.
void *takePiece(size_t bytes);
void givePiece(void *piece, size_t bytes);
/// Number of buffers in use.
size_t piecesInUse();

} // namespace ptx

#endif
