//===- Windows.cpp - Base positions of sliding-window caches --------------===//

#include "generate/Windows.h"
#include "tpc/windows.h"
#include <algorithm>

namespace tpc::rt {

int64_t windowCapacityOf(const Generation::Windowed &windowed, const GenerationLimits &limits) {
  return windowCapacity(windowed.window, limits.capacity, limits.chunk);
}

std::vector<Windows::Move> Windows::advance(int64_t first, const std::vector<int64_t> &lengths,
                                            const std::vector<int64_t> &counts) {
  std::vector<Move> moves;
  for (size_t row = 0; row < lengths.size(); ++row) {
    int64_t slot = first + static_cast<int64_t>(row), &base = bases[static_cast<size_t>(slot)];
    if (lengths[row] == 0)
      base = 0; // a new sequence
    int64_t cached = lengths[row] - base;
    if (cached + counts[row] <= capacity)
      continue;
    int64_t kept = std::min(cached, window - 1);
    if (kept > 0)
      moves.push_back({slot, cached - kept, kept});
    base = lengths[row] - kept;
  }
  return moves;
}

std::vector<int64_t> Windows::lengthsOf(int64_t first, const std::vector<int64_t> &lengths) const {
  std::vector<int64_t> own(lengths);
  for (size_t row = 0; row < own.size(); ++row)
    own[row] -= bases[static_cast<size_t>(first) + row];
  return own;
}

int64_t Windows::roomAfter(int64_t first, const std::vector<int64_t> &lengths,
                           const std::vector<int64_t> &counts) const {
  std::vector<int64_t> own = lengthsOf(first, lengths);
  int64_t room = capacity;
  for (size_t row = 0; row < own.size(); ++row)
    if (counts[row] > 0)
      room = std::min(room, capacity - own[row] - counts[row]);
  return room;
}

} // namespace tpc::rt
