//===- Parallel.h - the threads of one rank -------------------------------===//
//
// Each rank's thread has a pool of helpers of its own, made when it is first needed. They wait as
// ranks do (core/Futex.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_PARALLEL_H
#define TPC_RT_CPU_PARALLEL_H

#include <cstdint>

struct tpc_context;

namespace tpc::rt {

/// Threads worth waking for a product of [m, k] and [k, n]: waking costs as much as some 200,000
/// operations.
int threadsFor(const tpc_context &ctx, int64_t m, int64_t k, int64_t n);

/// Calls fn(state, task, worker) for all tasks in [0, tasks), each once, on up to `threads`
/// threads; worker < threads. Tasks are taken in ascending order by whoever is free, so that a
/// thread that does not get its core delays nobody.
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
