//===- windows.h - Capacity of sliding-window caches ----------------------===//
//
// Shared by the compiler, whose report counts these caches, and the runtime, which allocates and
// fills them. Plain C++.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_WINDOWS_H
#define TPC_WINDOWS_H

#include <algorithm>
#include <cstdint>

namespace tpc {

/// Default number of prompt tokens per step (--prefill-chunk).
inline constexpr int64_t kPrefillChunk = 512;

/// Returns the capacity, in tokens, of sliding-window caches for sequences of at most `capacity`
/// tokens: two windows and a step. So the window's tokens never overlap their old position when
/// they are moved to the front.
constexpr int64_t windowCapacity(int64_t window, int64_t capacity, int64_t step) {
  // The sum of the clamped operands cannot overflow.
  return std::min(capacity, 2 * std::min(window, capacity) + std::min(step, capacity));
}

} // namespace tpc

#endif // TPC_WINDOWS_H
