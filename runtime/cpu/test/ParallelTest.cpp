//===- ParallelTest.cpp - Threads of one rank -----------------------------===//

#include "cpu/Parallel.h"
#include "core/World.h"
#include <atomic>
#include <gtest/gtest.h>
#include <vector>

using namespace tpc::rt;

namespace {

/// Regions follow each other faster than helpers wake: a late helper must neither run tasks of an
/// ended region nor be counted in another one.
TEST(Parallel, EachTaskRunsOnceInItsRegion) {
  auto world = World::threads(Grid({{"tp", 1}}), 8);
  tpc_context &ctx = world->local(0);
  for (int round = 0; round < 20000; ++round) {
    int threads = 1 + round % 8;
    int64_t tasks = round * 7 % 23;
    std::vector<std::atomic<int>> runs(tasks);
    std::atomic<bool> ended{false}, late{false}, strange{false};
    forEachTask(ctx, threads, tasks, [&](int64_t task, int worker) {
      late = late || ended;
      strange = strange || worker < 0 || worker >= threads;
      ++runs[task];
    });
    ended = true;
    for (const std::atomic<int> &count : runs)
      ASSERT_EQ(count, 1);
    ASSERT_FALSE(late);
    ASSERT_FALSE(strange);
  }
}

/// The caller returns only after helpers have finished their tasks.
TEST(Parallel, EndsWhenAllTasksHave) {
  auto world = World::threads(Grid({{"tp", 1}}), 2);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> begun{0}, done{0};
    forEachTask(world->local(0), 2, 2, [&](int64_t, int) {
      // Both tasks must run concurrently, so one of them runs on a helper.
      for (++begun; begun < 2;)
        sched_yield();
      ++done;
    });
    ASSERT_EQ(done, 2);
  }
}

} // namespace
