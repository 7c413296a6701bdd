//===- State.h - Caches that persist between steps ------------------------===//

#ifndef TPC_RT_CORE_STATE_H
#define TPC_RT_CORE_STATE_H

#include "core/Device.h"
#include <optional>
#include <span>
#include <vector>

namespace tpc::rt {

/// A rank's shards of the caches, in device memory. A shard is allocated when a step first requests
/// it, and keeps its address while the same size is requested.
class StateMemory {
public:
  /// Returns shard `index` with `bytes` bytes. Its contents are unspecified at first; unwritten
  /// entries are never read. Throws std::bad_alloc.
  std::byte *get(Device &device, int32_t index, int64_t bytes);

  /// Returns shard `index` as last requested; empty if it was never requested.
  std::span<std::byte> find(int32_t index) const;

  /// Fills all shards with zeros. This commits the memory of their whole capacity.
  void clear(Device &device);
  /// Bytes of all shards.
  int64_t bytes() const;
  /// A number that changes whenever a shard is reallocated.
  uint64_t moves() const { return numMoves; }

private:
  struct CacheBuffer {
    DeviceMemory memory;
    int64_t bytes;
  };
  std::vector<std::optional<CacheBuffer>> buffers;
  uint64_t numMoves = 0;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_STATE_H
