//===- Worker.h - a thread of the library's own ---------------------------===//
//
// What a process asks of a program that it has loaded is done there: kernels keep threads for the
// thread that calls them, and those of the process are none of ours. Signals are left to the
// threads of the process; what a fault raises is not.
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
  /// When all that was asked for is done.
  ~Worker();

  /// Runs `task` there, behind what was asked for before. What it throws is the future's.
  std::future<void> post(std::function<void()> task);
  /// The same, and returns when it is done; throws what it throws.
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
