//===- RankThreads.h - Threads of in-process ranks ------------------------===//

#ifndef TPC_RT_CORE_RANKTHREADS_H
#define TPC_RT_CORE_RANKTHREADS_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tpc::rt {

/// Maximum number of threads of this process, and the setting that limits it. Must be checked
/// before threads start.
struct ThreadLimit {
  int64_t threads;
  std::string setting;
};
ThreadLimit threadLimit();

/// One thread for each index from 1; index 0 is the caller. Threads are reused by later runs, so
/// that per-thread caches of libraries survive.
class RankThreads {
public:
  RankThreads() = default;
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;
  ~RankThreads();

  /// Calls fn(0) ... fn(count - 1), each on its thread, and returns when all have returned. `fn`
  /// must not throw. Throws std::system_error, before any call, if a thread cannot be started.
  void run(int count, const std::function<void(int)> &fn);

private:
  void runThread(int number);

  std::mutex mutex;
  std::condition_variable begin, end;
  std::vector<std::thread> threads;
  const std::function<void(int)> *task = nullptr;
  int taskCount = 0;
  int busy = 0;
  uint64_t round = 0;
  bool stopping = false;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_RANKTHREADS_H
