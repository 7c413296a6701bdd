//===- BlockOrder.h - Order between blocks by fences ------------*- C++ -*-===//
//
// A fence of device scope followed by a strong write publishes what its thread has seen: its own
// accesses, and those that barriers ordered before them. A strong read of that location followed by
// a fence acquires it (PTX manual, "Release and Acquire Patterns"; strong updates continue a
// release sequence). An update with .release or .acquire has a fence before or after it. Barriers
// pass on what their threads have acquired.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_BLOCKORDER_H
#define TPC_TEST_SIMULATOR_PTX_BLOCKORDER_H

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ptx {

class BlockOrder {
public:
  /// Begins a block of this many threads.
  void beginBlock(size_t threads) { own.assign(threads, {}); }
  /// Whether an access of another block's thread is ordered before all accesses of `thread`.
  bool isOrdered(unsigned thread, uint64_t block, unsigned otherThread, uint32_t clock) const {
    const Seen *seen = own[thread].acquired.get();
    if (!seen)
      return false;
    auto found = seen->find(block);
    return found != seen->end() && clock < found->second[otherThread];
  }
  /// Records a fence of `thread`. Accesses of each thread of its block with clocks below `bounds`
  /// are ordered before the fence.
  void fence(unsigned thread, uint64_t block, std::vector<uint32_t> bounds);
  /// Records a strong access to global memory.
  void access(unsigned thread, uint64_t address, bool reads, bool writes);
  /// Records a barrier of these threads.
  void join(const std::vector<unsigned> &threads);

private:
  /// Clock bounds of threads, by block.
  using Seen = std::map<uint64_t, std::vector<uint32_t>>;
  using SeenPointer = std::shared_ptr<const Seen>;
  struct Thread {
    SeenPointer acquired;  // ordered before all later accesses
    SeenPointer read;      // acquired by the next fence
    SeenPointer published; // published by later strong writes, since the last fence
  };
  static SeenPointer merge(const SeenPointer &a, const SeenPointer &b);

  std::vector<Thread> own;
  std::map<uint64_t, SeenPointer> released; // by address
};

} // namespace ptx

#endif
