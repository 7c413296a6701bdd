//===- Parallel.cpp - the threads of one rank -----------------------------===//

#include "cpu/Parallel.h"
#include "core/Context.h"
#include <algorithm>
#include <atomic>

extern "C" void GOMP_parallel(void (*fn)(void *), void *data, unsigned numThreads, unsigned flags);

namespace tpc::rt {
namespace {

struct Region {
  void (*fn)(void *, int64_t, int);
  void *state;
  int64_t tasks;
  std::atomic<int64_t> next{0};
  std::atomic<int> workers{0};
};

void work(void *data) {
  Region &region = *static_cast<Region *>(data);
  int worker = region.workers.fetch_add(1, std::memory_order_relaxed);
  for (int64_t task; (task = region.next.fetch_add(1, std::memory_order_relaxed)) < region.tasks;)
    region.fn(region.state, task, worker);
}

} // namespace

void runTasks(int threads, int64_t tasks, void (*fn)(void *, int64_t, int), void *state) {
  threads = static_cast<int>(std::min<int64_t>(threads, tasks));
  if (threads <= 1) {
    for (int64_t task = 0; task < tasks; ++task)
      fn(state, task, 0);
    return;
  }
  Region region{fn, state, tasks};
  GOMP_parallel(work, &region, static_cast<unsigned>(threads), 0);
}

} // namespace tpc::rt

using namespace tpc::rt;

extern "C" void tpc_parallel_for(tpc_context *ctx, tpc_kernel_fn kernel, void *const *args,
                                 int64_t rows, int64_t grain) {
  if (rows <= 0)
    return;
  // At least `grain` rows each, and a few pieces for each thread: enough to even out, few enough to
  // keep a thread on neighbouring rows.
  int64_t most = ctx->threadsPerRank == 1 ? 1 : 3 * ctx->threadsPerRank;
  int64_t pieces = std::clamp<int64_t>(rows / std::max<int64_t>(grain, 1), 1, most);
  forEachTask(ctx->threadsPerRank, pieces, [&](int64_t piece, int) {
    Part part = partOf(rows, pieces, piece);
    kernel(args, part.offset, part.offset + part.size);
  });
}
