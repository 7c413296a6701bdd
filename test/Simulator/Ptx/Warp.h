//===- Warp.h - Warp: registers and lane positions ------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_WARP_H
#define TPC_TEST_SIMULATOR_PTX_WARP_H

#include "Program.h"

#include <array>
#include <bit>
#include <vector>

namespace ptx {

class Machine;

/// Lanes of a warp that are at the same instruction. Diverged lanes are in different groups until
/// they reconverge.
struct Group {
  enum State : uint8_t { Runs, Parked, WaitsForLanes, WaitsForWarps } state = Runs;
  uint32_t pc = 0;
  Mask lanes = 0;
};

/// Calls f with each lane of a mask.
template <class F> inline void forLanes(Mask mask, F f) {
  for (; mask; mask &= mask - 1)
    f(unsigned(std::countr_zero(mask)));
}

/// A cp.async of one lane that it has not waited for.
struct AsyncCopy {
  uint8_t *to = nullptr;
  const uint8_t *from = nullptr;
  Allocation *source = nullptr; // null if no bytes are read
  uint64_t toOffset = 0;        // in shared memory
  uint64_t fromOffset = 0;      // in the source
  uint32_t bytes = 0, read = 0; // bytes written, and those of them that are read
  uint32_t group = 0;           // number of the lane's commits before the copy
  bool isComplete = false;      // whether the bytes were copied
};

class Warp {
public:
  Warp(Machine &machine, const Kernel &kernel, unsigned index);

  template <class T> T *data(Slot slot) { return reinterpret_cast<T *>(file + slot); }
  Mask &predicate(Slot slot) { return *reinterpret_cast<Mask *>(file + slot); }
  /// Returns the lanes in which the register is defined.
  Mask &defined(Slot slot) { return *reinterpret_cast<Mask *>(file + slot - headerBytes); }

  /// Begins a block: all registers are undefined, and all lanes are at the first instruction.
  void reset(Mask threads);

  Machine &machine;
  const Kernel &kernel;
  const unsigned index; // index in its block
  Mask exists = 0;
  Mask alive = 0;
  Mask waited = 0; // lanes that executed griddepcontrol.wait
  std::vector<Group> groups;
  uint32_t pc = 0;            // index of the current instruction
  std::vector<uint8_t> local; // local memory of all lanes, concatenated
  std::vector<uint8_t> localWritten;

  // Vector clocks of the lanes of this warp, by lane, and of other warps. An access with an earlier
  // clock is ordered before the current one.
  std::array<uint32_t, warpSize> clock{};
  std::array<std::array<uint32_t, warpSize>, warpSize> lanesSeen{};
  std::vector<uint32_t> warpsSeen;

  std::array<std::vector<AsyncCopy>, warpSize> copies; // in flight, by lane
  std::array<uint32_t, warpSize> committed{};          // commits of groups, by lane

private:
  std::vector<uint64_t> storage;
  uint8_t *file;
};

} // namespace ptx

#endif
