//===- Windows.h - where windowed caches begin ----------------------------===//
//
// Caches of attention with a window have room for fewer tokens than sequences may have. Of each
// sequence they hold those from a base on. Where a step's tokens do not fit behind them, the last
// that can still be seen are moved to the front first: window - 1 tokens, once in as many steps as
// there is room for besides.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_WINDOWS_H
#define TPC_RT_GENERATE_WINDOWS_H

#include "generate/Request.h"
#include <vector>

namespace tpc::rt {

int64_t roomOf(const Generation::Windowed &windowed, const GenerationLimits &limits);

class Windows {
public:
  Windows(int64_t window, int64_t room, int64_t slots)
      : window(window), room(room), bases(static_cast<size_t>(slots)) {}

  /// Tokens [from, from + count) of a slot's cache that go to its front.
  struct Move {
    int64_t slot, from, count;
  };

  /// What is to be moved before a step of rows [first, first + lengths.size()), of which these are
  /// the tokens before and in it. Afterwards it is taken to be done.
  std::vector<Move> advance(int64_t first, const std::vector<int64_t> &lengths,
                            const std::vector<int64_t> &counts);
  /// Tokens that the caches hold of these rows, as they are told to a step.
  std::vector<int64_t> lengthsOf(int64_t first, const std::vector<int64_t> &lengths) const;

private:
  int64_t window, room;
  std::vector<int64_t> bases;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_WINDOWS_H
