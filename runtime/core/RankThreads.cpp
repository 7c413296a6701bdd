//===- RankThreads.cpp - the threads that in-process ranks live on --------===//

#include "core/RankThreads.h"

namespace tpc::rt {

RankThreads::~RankThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  begin.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void RankThreads::live(int number) {
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
    threads.emplace_back(&RankThreads::live, this, static_cast<int>(threads.size()) + 1);
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
