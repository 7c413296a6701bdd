//===- Attention.cpp - Benchmark of attention with few queries ------------===//
//
//   tpc-attention-bench [THREADS]
//
// Measures attention by blocks of queries and by ranges of keys (cpu/Attention.h), with KV caches
// larger than the CPU's caches, and the time of reading the same keys and values once. All three
// alternate, so that other load on the machine affects all of them. `speedup` is that of ranges of
// keys over blocks of queries; `of read` is the reading time in percent of the time by ranges.
//
//===----------------------------------------------------------------------===//

#include "cpu/Attention.h"
#include "core/World.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace tpc::rt;

namespace {

struct Shape {
  int64_t queries, keys, headsQ, headsKv, size;
};

constexpr Shape shapes[] = {
    {1, 128, 12, 12, 64},  {1, 1000, 12, 12, 64}, {1, 8000, 12, 12, 64},  {2, 1000, 12, 12, 64},
    {4, 1000, 12, 12, 64}, {8, 1000, 12, 12, 64}, {16, 1000, 12, 12, 64}, {1, 1000, 32, 8, 128},
    {1, 8000, 32, 8, 128}, {4, 1000, 32, 8, 128}, {8, 1000, 32, 8, 128},  {1, 1000, 32, 4, 64},
    {2, 1000, 32, 4, 64},  {1, 1000, 32, 1, 64},  {1, 1000, 71, 1, 64},   {8, 1000, 71, 1, 64},
    {1, 1000, 8, 4, 256},
};

/// Bytes of all copies of keys and values, which are used in turn. Exceeds the CPU's caches.
constexpr int64_t copiesBytes = 128 << 20;

double secondsOf(const auto &work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

volatile uint64_t sink;

/// Reads the memory in one chunk per thread.
void read(tpc_context &ctx, int threads, const float *from, int64_t floats) {
  forEachTask(ctx, threads, threads, [&](int64_t task, int) {
    int64_t end = floats * (task + 1) / threads;
    uint64_t sums[32] = {};
    for (int64_t i = floats * task / threads; i + 64 <= end; i += 64)
      for (int64_t j = 0; j < 32; ++j)
        sums[j] += reinterpret_cast<const uint64_t *>(from + i)[j];
    for (uint64_t sum : sums)
      sink = sink + sum;
  });
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  selectDevices(cpuDevices());
  auto world = World::threads(Grid({{"tp", 1}}), threads);
  tpc_context &ctx = world->local(0);
  CpuDevice memory(ctx);
  Arena scratch(memory);
  std::printf("%s kernels, %d threads; microseconds of the best of some runs\n", kernels().name,
              threads);
  std::printf("%7s %6s %7s %7s %5s %9s %9s %9s %8s %8s %s\n", "queries", "keys", "heads", "kv",
              "size", "by q, us", "by k, us", "read, us", "speedup", "of read", "chosen");
  for (const Shape &s : shapes) {
    int64_t row = s.headsKv * s.size, floats = 2 * s.keys * row;
    int64_t copies = copiesBytes / (floats * 4) + 1;
    std::vector<float> cache(copies * floats), q(s.queries * s.headsQ * s.size), out(q.size());
    for (size_t i = 0; i < cache.size(); ++i)
      cache[i] = static_cast<float>(i * 7919 % 201) * 0.01f - 1;
    for (size_t i = 0; i < q.size(); ++i)
      q[i] = static_cast<float>(i * 7919 % 203) * 0.01f - 1;
    tpc_attention_args a = {};
    a.q = q.data();
    a.out = out.data();
    a.batch = 1;
    a.seq_q = s.queries;
    a.seq_k = s.keys;
    a.heads_q = s.headsQ;
    a.heads_kv = s.headsKv;
    a.head_size = a.value_size = s.size;
    a.q_row_stride = a.out_row_stride = s.headsQ * s.size;
    a.k_row_stride = a.v_row_stride = row;
    a.scale = 0.125f;
    a.causal = 1;
    a.causal_offset = s.keys - s.queries;
    int64_t copy = 0;
    auto timed = [&](const auto &work) {
      const float *at = cache.data() + copy++ % copies * floats;
      a.k = at;
      a.v = at + floats / 2;
      return secondsOf(work);
    };
    double queries = 1, keys = 1, reading = 1;
    for (int i = std::clamp(static_cast<int>(2e8 / static_cast<double>(floats)), 20, 400); i > 0;
         --i) {
      queries = std::min(queries, timed([&] { attendByQueries(ctx, scratch, a); }));
      keys = std::min(keys, timed([&] { attendByKeys(ctx, scratch, a); }));
      reading = std::min(reading, timed([&] { read(ctx, threads, a.k, floats); }));
    }
    std::printf("%7lld %6lld %7lld %7lld %5lld %9.1f %9.1f %9.1f %7.2fx %7.0f%% %s\n",
                static_cast<long long>(s.queries), static_cast<long long>(s.keys),
                static_cast<long long>(s.headsQ), static_cast<long long>(s.headsKv),
                static_cast<long long>(s.size), 1e6 * queries, 1e6 * keys, 1e6 * reading,
                queries / keys, 100 * reading / keys, isFasterByKeys(a) ? "keys" : "queries");
  }
}
