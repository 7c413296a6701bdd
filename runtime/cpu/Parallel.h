//===- Parallel.h - Threads of one rank -----------------------------------===//
//
// Each rank's thread has its own pool of helpers, created on first use. Helpers wait like ranks do
// (core/Futex.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_PARALLEL_H
#define TPC_RT_CPU_PARALLEL_H

#include <cstdint>

struct tpc_context;

namespace tpc::rt {

/// Number of threads worth waking for a matmul of [m, k] and [k, n]: a wake-up costs as much as
/// about 200,000 operations.
int threadsFor(const tpc_context &ctx, int64_t m, int64_t k, int64_t n);

/// Calls fn(state, task, worker) for all tasks in [0, tasks), each once, on up to `threads`
/// threads; worker < threads. Free threads take tasks in ascending order, so that a preempted
/// thread does not delay others.
void runTasks(const tpc_context &ctx, int threads, int64_t tasks,
              void (*fn)(void *state, int64_t task, int worker), void *state);

template <class Fn> void forEachTask(const tpc_context &ctx, int threads, int64_t tasks, Fn fn) {
  runTasks(
      ctx, threads, tasks,
      [](void *state, int64_t task, int worker) { (*static_cast<Fn *>(state))(task, worker); },
      &fn);
}

} // namespace tpc::rt

#endif // TPC_RT_CPU_PARALLEL_H
