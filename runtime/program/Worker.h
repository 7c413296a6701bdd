//===- Worker.h - Worker thread of the library ----------------------------===//
//
// A loaded program runs its work on this thread: kernels keep helper threads per calling thread,
// and those of the embedding process do not belong to the library. The worker blocks asynchronous
// signals, but not those of faults.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_WORKER_H
#define TPC_RT_PROGRAM_WORKER_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace tpc::rt {

class Worker {
public:
  /// Throws std::system_error.
  Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;
  /// Waits for all posted tasks.
  ~Worker();

  /// Runs `task` after all earlier tasks. The future rethrows its exceptions.
  std::future<void> post(std::function<void()> task);
  /// Runs `task` and returns when it is done; rethrows its exceptions.
  void call(std::function<void()> task) { post(std::move(task)).get(); }

private:
  void live();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::packaged_task<void()>> tasks;
  bool ending = false;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_WORKER_H
