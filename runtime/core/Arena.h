//===- Arena.h - Stack of memory frames of a step -------------------------===//
//
// A bump stack in chunks. A step of a new shape may add chunks. As soon as the stack is empty
// again, one chunk of the peak size replaces them, so that later steps of that shape allocate
// nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ARENA_H
#define TPC_RT_CORE_ARENA_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpc::rt {

/// Allocator of an arena's chunks.
class MemorySource {
public:
  virtual ~MemorySource();
  /// Returns 64-byte aligned memory, even for 0 bytes, with unspecified contents. Null: out of
  /// memory.
  virtual void *allocate(int64_t bytes) = 0;
  virtual void release(void *memory) = 0;
};

class Arena {
public:
  /// Alignment of frames within a chunk. Device chunks are aligned likewise, so alignment-dependent
  /// algorithms behave the same at any frame offset.
  static constexpr size_t alignment = 256;
  static constexpr size_t alignUp(size_t bytes) {
    return (bytes + alignment - 1) & ~(alignment - 1);
  }

  /// Allocates chunks from `source`, which must outlive the arena.
  explicit Arena(MemorySource &source) : source(source) {}
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena();

  /// Reserves one chunk of `bytes` for frames. The arena must be empty. Returns false if out of
  /// memory.
  bool reserve(size_t bytes);
  /// Returns null if out of memory.
  void *push(int64_t bytes);
  /// Frees `frame` and all frames pushed after it. Returns false if it is not a frame of this
  /// arena.
  bool pop(void *frame);
  /// Drops all frames, as after an error.
  void clear();

  /// Number of allocations from the source in total. A steady-state step does not increase it.
  uint64_t allocations() const { return numAllocations; }
  /// Bytes reserved from the source, bytes of all frames at their peak, and bytes of all frames.
  size_t reserved() const;
  size_t peak() const { return peakBytes; }
  size_t used() const;

private:
  struct Chunk {
    std::byte *base = nullptr;
    size_t size = 0;
    size_t used = 0;
  };
  bool addChunk(size_t atLeast);
  void coalesce();

  MemorySource &source;
  std::vector<Chunk> chunks;
  size_t current = 0; ///< chunk with the top of the stack; later chunks are empty
  size_t below = 0;   ///< bytes used in earlier chunks
  size_t peakBytes = 0;
  uint64_t numAllocations = 0;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_ARENA_H
