//===- Arena.h - the stack of frames that a step works in -----------------===//
//
// A bump stack in chunks. A step of a new shape may add chunks; as soon as the stack is empty again
// they are replaced by one chunk of the size that was needed, so that every later step of that
// shape allocates nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ARENA_H
#define TPC_RT_CORE_ARENA_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpc::rt {

/// Where an arena's chunks come from.
class MemorySource {
public:
  virtual ~MemorySource();
  /// 64-byte aligned, also if empty; contents are unspecified. Null if there is none.
  virtual void *allocate(int64_t bytes) = 0;
  virtual void release(void *memory) = 0;
};

class Arena {
public:
  /// Of frames within a chunk. Devices give chunks that are aligned as well, and algorithms that
  /// depend on alignment are the same wherever a frame comes to lie.
  static constexpr size_t alignment = 256;
  static constexpr size_t alignUp(size_t bytes) {
    return (bytes + alignment - 1) & ~(alignment - 1);
  }

  /// Of memory of `source`, which outlives it.
  explicit Arena(MemorySource &source) : source(source) {}
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena();

  /// Frames will take so many bytes: one chunk, where it does not hold that yet. Without frames.
  /// False if there is no memory.
  bool reserve(size_t bytes);
  /// Null if there is no memory.
  void *push(int64_t bytes);
  /// Frees `frame` and all that was pushed since. False if it is not a frame of this arena.
  bool pop(void *frame);
  /// Forgets all frames, as after an error.
  void clear();

  /// How often memory was asked of the source, in all. A step in the steady state leaves it alone.
  uint64_t allocations() const { return numAllocations; }
  /// Bytes held from the source, and the most that frames ever took.
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
  size_t current = 0; ///< the chunk that is bumped; those after it are empty
  size_t below = 0;   ///< bytes used in the chunks before it
  size_t peakBytes = 0;
  uint64_t numAllocations = 0;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_ARENA_H
