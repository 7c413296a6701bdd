//===- ScatterBlock.cpp - Copy of a block into a tensor -------------------===//

#include "program/ScatterBlock.h"
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

namespace tpc::rt {

constexpr int32_t maxDims = 16;

/// Calls `work(begin, end)` for parts of [0, count), on several threads. `bytes`: size of an
/// element.
static void divide(int64_t count, int64_t bytes, CopyThreads threads,
                   const std::function<void(int64_t begin, int64_t end)> &work) {
  int64_t parts = std::clamp<int64_t>(count * bytes / threads.minBytes, 1,
                                      std::min<int64_t>(threads.count, count));
  std::vector<std::thread> others;
  for (int64_t i = 1; i < parts; ++i)
    others.emplace_back(work, count * i / parts, count * (i + 1) / parts);
  work(0, count / parts);
  for (std::thread &other : others)
    other.join();
}

void scatterBlock(std::byte *to, const std::byte *from, int32_t rank, const int64_t *global,
                  const int64_t *offset, const int64_t *size, int64_t elementBytes,
                  CopyThreads threads) {
  // Trailing dimensions that the block covers fully are merged with the one before them.
  int64_t run = elementBytes;
  while (rank > 0 && size[rank - 1] == global[rank - 1])
    run *= size[--rank];
  if (rank > 0) {
    int64_t outerRun = global[rank - 1] * run;
    to += offset[rank - 1] * run;
    run *= size[--rank];
    int64_t rows = std::accumulate(size, size + rank, int64_t(1), std::multiplies<>());
    if (rows > 1)
      return divide(rows, run, threads, [&](int64_t begin, int64_t end) {
        int64_t index[maxDims], rest = begin;
        for (int32_t d = rank; d-- > 0; rest /= size[d])
          index[d] = rest % size[d];
        for (int64_t row = begin; row < end; ++row) {
          int64_t at = 0;
          for (int32_t d = 0; d < rank; ++d)
            at = at * global[d] + offset[d] + index[d];
          std::memcpy(to + at * outerRun, from + row * run, static_cast<size_t>(run));
          for (int32_t d = rank; d-- > 0 && ++index[d] == size[d];)
            index[d] = 0;
        }
      });
    int64_t at = 0;
    for (int32_t d = 0; d < rank; ++d)
      at = at * global[d] + offset[d];
    to += at * outerRun;
  }
  if (to == from)
    return;
  divide(run, 1, threads, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

} // namespace tpc::rt
