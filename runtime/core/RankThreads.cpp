//===- RankThreads.cpp - Threads of in-process ranks ----------------------===//

#include "core/RankThreads.h"

#include "core/ControlGroup.h"
#include <fstream>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

namespace tpc::rt {

ThreadLimit threadLimit() {
  ThreadLimit limit = {std::numeric_limits<int64_t>::max(), "nothing"};
  auto apply = [&](const std::string &name, int64_t value, int64_t perThread) {
    if (value > 0 && value / perThread < limit.threads)
      limit = {value / perThread, name + " = " + std::to_string(value)};
  };
  auto applyFile = [&](const char *path, int64_t perThread) {
    int64_t value = 0;
    if (std::ifstream(path) >> value)
      apply(path, value, perThread);
  };
  applyFile("/proc/sys/kernel/threads-max", 1);
  applyFile("/proc/sys/kernel/pid_max", 1);
  applyFile("/proc/sys/vm/max_map_count", 2); // a stack and its guard page
  std::string file;
  int64_t threads = ControlGroup().limit("pids", "pids.max", &file);
  apply(file, threads, 1);
  rlimit processes;
  // The superuser has no such limit.
  if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &processes) == 0 &&
      processes.rlim_cur != RLIM_INFINITY)
    apply("ulimit -u", static_cast<int64_t>(processes.rlim_cur), 1);
  return limit;
}

RankThreads::~RankThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  begin.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void RankThreads::runThread(int number) {
  std::unique_lock<std::mutex> lock(mutex);
  for (uint64_t seen = 0;;) {
    begin.wait(lock, [&] { return stopping || (round != seen && task); });
    if (stopping)
      return;
    seen = round;
    if (number >= taskCount)
      continue;
    const std::function<void(int)> *mine = task;
    lock.unlock();
    (*mine)(number);
    lock.lock();
    if (--busy == 0)
      end.notify_all();
  }
}

void RankThreads::run(int count, const std::function<void(int)> &fn) {
  while (static_cast<int>(threads.size()) < count - 1)
    threads.emplace_back(&RankThreads::runThread, this, static_cast<int>(threads.size()) + 1);
  {
    std::lock_guard<std::mutex> lock(mutex);
    task = &fn;
    taskCount = count;
    busy = count - 1;
    ++round;
  }
  begin.notify_all();
  fn(0);
  std::unique_lock<std::mutex> lock(mutex);
  end.wait(lock, [&] { return busy == 0; });
  task = nullptr;
}

} // namespace tpc::rt
