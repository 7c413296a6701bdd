//===- Worker.h - Worker thread of the library ----------------------------===//
//
// A loaded program runs its work on this thread, because kernels have helper threads per calling
// thread, and the host process's threads must not have any. The worker blocks asynchronous signals,
// but not fault signals.
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
  /// Runs `task` to completion; rethrows its exceptions.
  void call(std::function<void()> task) { post(std::move(task)).get(); }

private:
  void loop();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::packaged_task<void()>> tasks;
  bool ending = false;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_WORKER_H
