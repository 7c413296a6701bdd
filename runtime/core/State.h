//===- State.h - what stays from step to step -----------------------------===//

#ifndef TPC_RT_CORE_STATE_H
#define TPC_RT_CORE_STATE_H

#include "core/Device.h"
#include <optional>
#include <span>
#include <vector>

namespace tpc::rt {

/// A rank's parts of the caches, in its device's memory. Each is made when a step first asks for
/// it, and stays where it is for as long as the same is asked for.
class StateMemory {
public:
  /// That of `index`, of so many bytes, in which anything may be: of entries that nobody has
  /// written nothing is read. Throws std::bad_alloc.
  std::byte *get(Device &device, int32_t index, int64_t bytes);

  /// That of `index` as it was last asked for; empty: it was not.
  std::span<std::byte> find(int32_t index) const;

  /// All parts are zeros: what has room for much then takes the memory of all of it.
  void clear(Device &device);
  /// Of all parts.
  int64_t bytes() const;
  /// Another number whenever a part has become another one.
  uint64_t moves() const { return numMoves; }

private:
  struct Piece {
    DeviceMemory memory;
    int64_t bytes;
  };
  std::vector<std::optional<Piece>> pieces;
  uint64_t numMoves = 0;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_STATE_H
