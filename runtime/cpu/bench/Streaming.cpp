//===- Streaming.cpp - Benchmark of memory read bandwidth -----------------===//
//
//   tpc-streaming-bench [THREADS [MEGABYTES [PASSES]]]
//
// Measures the read bandwidth, which limits the time of a token: a token reads all weights once.
// Each thread reads and sums its range of the memory in order. Prints as JSON the bytes per second
// of the median pass and of the best pass.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {

using Vector [[gnu::vector_size(64)]] = uint64_t;
constexpr int64_t sums = 8;
volatile uint64_t sink;

/// Reads into independent sums, so that loads never wait for an addition.
void read(const Vector *begin, int64_t count) {
  Vector sum[sums] = {};
  for (int64_t i = 0; i + sums <= count; i += sums)
    for (int64_t j = 0; j < sums; ++j)
      sum[j] += begin[i + j];
  for (const Vector &one : sum)
    sink = sink + one[0] + one[7];
}

/// Uses the page size of the runtime's weights (core/HostMemory.cpp).
Vector *allocate(int64_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("tpc-streaming-bench: mmap");
    std::exit(1);
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<Vector *>(memory);
}

} // namespace

int main(int argc, char **argv) {
  int64_t threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  int64_t bytes = (argc > 2 ? std::max(64, std::atoi(argv[2])) : 512) * int64_t{1000000};
  int64_t passes = argc > 3 ? std::max(1, std::atoi(argv[3])) : 15;
  int64_t count = bytes / sizeof(Vector);
  Vector *memory = allocate(count * sizeof(Vector));
  for (int64_t i = 0; i < count; ++i)
    memory[i] = Vector{} + static_cast<uint64_t>(i);

  std::vector<double> rates;
  for (int64_t pass = 0; pass <= passes; ++pass) {
    auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    auto readRange = [&](int64_t thread) {
      int64_t first = count * thread / threads;
      read(memory + first, count * (thread + 1) / threads - first);
    };
    for (int64_t thread = 1; thread < threads; ++thread)
      others.emplace_back(readRange, thread);
    readRange(0);
    for (std::thread &other : others)
      other.join();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    // The first pass is a warm-up.
    if (pass)
      rates.push_back(static_cast<double>(count * sizeof(Vector)) / seconds.count());
  }
  std::sort(rates.begin(), rates.end());
  std::printf("{\"threads\": %lld, \"bytes\": %lld, \"median\": %.6g, \"best\": %.6g}\n",
              static_cast<long long>(threads), static_cast<long long>(count * sizeof(Vector)),
              rates[rates.size() / 2], rates.back());
}
