//===- windows.h - What caches of sliding windows have room for -----------===//
//
// Shared by the compiler, whose report counts these caches, and the runtime, which takes and fills
// them. Plain C++.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_WINDOWS_H
#define TPC_WINDOWS_H

#include <algorithm>
#include <cstdint>

namespace tpc {

/// Tokens of a prompt in one step, if nobody says otherwise (--prefill-chunk).
inline constexpr int64_t kPrefillChunk = 512;

/// Tokens, of sequences with at most `capacity`: two windows and a step, so that what is moved to
/// the front never lies over where it goes.
constexpr int64_t windowRoom(int64_t window, int64_t capacity, int64_t step) {
  // None of them is so large that their sum is none.
  return std::min(capacity, 2 * std::min(window, capacity) + std::min(step, capacity));
}

} // namespace tpc

#endif // TPC_WINDOWS_H
