//===- WindowsTest.cpp - Tests of sliding-window caches -------------------===//

#include "generate/Windows.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace tpc::rt;

namespace {

using Tokens = std::vector<int64_t>;

TEST(Windows, CapacityIsTwoWindowsAndAStep) {
  Generation::Windowed windowed;
  windowed.window = 6;
  EXPECT_EQ(windowCapacityOf(windowed, {1, 100, 5}), 17);
  EXPECT_EQ(windowCapacityOf(windowed, {1, 16, 5}), 16);
  EXPECT_EQ(windowCapacityOf(windowed, {1, 17, 512}), 17);
  windowed.window = INT64_MAX / 8;
  EXPECT_EQ(windowCapacityOf(windowed, {1, 100, 5}), 100);
}

/// Caches whose tokens are their positions in the sequence.
class Caches {
public:
  Caches(int64_t slots, int64_t window, GenerationLimits limits)
      : window(window), capacity(windowCapacityOf(windowedOf(window), limits)),
        windows(window, capacity, slots),
        memory(static_cast<size_t>(slots), Tokens(static_cast<size_t>(capacity), -1)) {}

  void step(int64_t first, const Tokens &lengths, const Tokens &counts) {
    for (const Windows::Move &move : windows.advance(first, lengths, counts)) {
      Tokens &own = memory[static_cast<size_t>(move.slot)];
      ++moves;
      ASSERT_LT(move.count, window);
      ASSERT_LE(move.count, move.from) << "the move overlaps its destination";
      std::copy_n(own.begin() + move.from, move.count, own.begin());
      // Other entries must not be visible.
      std::fill(own.begin() + move.count, own.end(), -1);
    }
    if (int64_t room = windows.roomAfter(first, lengths, counts); first % 2 == 0)
      expectRoom(room, first, lengths, counts);
    Tokens cached = windows.lengthsOf(first, lengths);
    for (size_t row = 0; row < lengths.size(); ++row) {
      Tokens &own = memory[static_cast<size_t>(first) + row];
      ASSERT_GE(cached[row], std::min(lengths[row], window - 1));
      ASSERT_LE(cached[row] + counts[row], capacity);
      for (int64_t i = 0; i < counts[row]; ++i) {
        own[static_cast<size_t>(cached[row] + i)] = lengths[row] + i;
        // Tokens that are visible to the new token.
        for (int64_t back = 0; back < std::min(window, lengths[row] + i + 1); ++back)
          ASSERT_EQ(own[static_cast<size_t>(cached[row] + i - back)], lengths[row] + i - back);
      }
    }
  }

  /// `room` more steps of one token in the same rows move nothing; one more does.
  void expectRoom(int64_t room, int64_t first, Tokens lengths, const Tokens &counts) const {
    Windows later = windows;
    Tokens next(counts);
    for (size_t row = 0; row < counts.size(); ++row)
      next[row] = counts[row] > 0;
    if (std::count(next.begin(), next.end(), 1) == 0)
      return;
    for (int64_t step = 0; step <= room; ++step) {
      for (size_t row = 0; row < counts.size(); ++row)
        lengths[row] += step == 0 ? counts[row] : next[row];
      Tokens before = later.lengthsOf(first, lengths);
      later.advance(first, lengths, next);
      EXPECT_EQ(later.lengthsOf(first, lengths) == before, step < room) << step << " of " << room;
    }
  }

  int64_t moves = 0;

private:
  static Generation::Windowed windowedOf(int64_t window) {
    Generation::Windowed windowed;
    windowed.window = window;
    return windowed;
  }
  int64_t window, capacity;
  Windows windows;
  std::vector<Tokens> memory;
};

TEST(Windows, EachTokenSeesItsWindow) {
  for (int64_t window : {1, 2, 6})
    for (int64_t chunk : {1, 3, 8})
      for (int64_t prompt = 1; prompt < 5 * window; ++prompt) {
        Caches caches(1, window, {1, 100, chunk});
        for (int64_t length = 0; length < 100;) {
          int64_t count = length < prompt ? std::min(chunk, prompt - length) : 1;
          caches.step(0, {length}, {count});
          length += count;
        }
        ASSERT_FALSE(HasFatalFailure());
        EXPECT_GT(caches.moves, window > 1 ? 0 : -1);
        EXPECT_LE(caches.moves, 100 / (window + 1));
      }
}

TEST(Windows, SlotsAreReused) {
  std::mt19937 random(1);
  constexpr int64_t slots = 4, capacity = 60, chunk = 5;
  Caches caches(slots, 6, {slots, capacity, chunk});
  Tokens lengths(slots, 0);
  for (int round = 0; round < 3000; ++round) {
    int64_t first = static_cast<int64_t>(random() % slots),
            rows = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(slots - first));
    Tokens before(lengths.begin() + first, lengths.begin() + first + rows), counts;
    for (int64_t &length : before) {
      if (random() % 30 == 0)
        length = 0;
      counts.push_back(std::min<int64_t>(random() % (chunk + 1), capacity - length));
    }
    caches.step(first, before, counts);
    ASSERT_FALSE(HasFatalFailure());
    for (int64_t row = 0; row < rows; ++row)
      lengths[static_cast<size_t>(first + row)] =
          before[static_cast<size_t>(row)] + counts[static_cast<size_t>(row)];
  }
  EXPECT_GT(caches.moves, 100);
}

} // namespace
