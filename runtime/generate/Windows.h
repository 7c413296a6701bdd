//===- Windows.h - Base positions of sliding-window caches ----------------===//
//
// Sliding-window caches have a capacity below the maximum sequence length. They store the tokens of
// each sequence from a base position on. If a step's tokens do not fit after them, the last
// `window - 1` tokens, which later tokens still attend to, are first moved to the front. This
// happens only when the remaining capacity is used up.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_WINDOWS_H
#define TPC_RT_GENERATE_WINDOWS_H

#include "generate/Request.h"
#include <vector>

namespace tpc::rt {

/// Returns the number of tokens that a sliding-window cache has room for.
int64_t windowCapacityOf(const Generation::Windowed &windowed, const GenerationLimits &limits);

class Windows {
public:
  Windows(int64_t window, int64_t capacity, int64_t slots)
      : window(window), capacity(capacity), bases(static_cast<size_t>(slots)) {}

  /// Tokens [from, from + count) of a slot's cache, to be moved to its front.
  struct Move {
    int64_t slot, from, count;
  };

  /// Returns the moves before a step of rows [first, first + lengths.size()). `lengths` and
  /// `counts` are the tokens before and in the step. Updates the bases as if the moves were done.
  std::vector<Move> advance(int64_t first, const std::vector<int64_t> &lengths,
                            const std::vector<int64_t> &counts);
  /// Returns the number of tokens in the caches of these rows, which is the step's input.
  std::vector<int64_t> lengthsOf(int64_t first, const std::vector<int64_t> &lengths) const;

  /// Returns how many more tokens the caches of all rows with a count have room for after a step,
  /// before tokens must move.
  int64_t roomAfter(int64_t first, const std::vector<int64_t> &lengths,
                    const std::vector<int64_t> &counts) const;

private:
  int64_t window, capacity;
  std::vector<int64_t> bases;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_WINDOWS_H
