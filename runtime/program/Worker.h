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
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tpc::rt {

class Worker {
public:
  /// Throws std::system_error.
  Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;
  /// When what was asked for is done.
  ~Worker();

  /// Runs `task` there and returns when it is done; throws what it throws. Others wait meanwhile.
  void call(const std::function<void()> &task);

private:
  void live();

  std::mutex turn; // of who calls
  std::mutex mutex;
  std::condition_variable begin, end;
  const std::function<void()> *task = nullptr;
  std::exception_ptr thrown;
  bool ending = false;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_WORKER_H
