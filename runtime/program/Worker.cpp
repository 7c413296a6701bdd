//===- Worker.cpp - a thread of the library's own -------------------------===//

#include "program/Worker.h"
#include <csignal>
#include <pthread.h>
#include <utility>

namespace tpc::rt {
namespace {

/// Threads that are started meanwhile, and those that they start, take no signals that are sent to
/// the process.
class WithoutSignals {
public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};

} // namespace

Worker::Worker() {
  WithoutSignals scope;
  thread = std::thread([this] { live(); });
}

Worker::~Worker() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  begin.notify_one();
  thread.join();
}

void Worker::live() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    begin.wait(lock, [&] { return task || ending; });
    if (!task)
      return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*task)();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    thrown = failure;
    task = nullptr;
    end.notify_one();
  }
}

void Worker::call(const std::function<void()> &fn) {
  std::lock_guard<std::mutex> myTurn(turn);
  std::unique_lock<std::mutex> lock(mutex);
  task = &fn;
  begin.notify_one();
  end.wait(lock, [&] { return !task; });
  if (std::exception_ptr failure = std::exchange(thrown, nullptr))
    std::rethrow_exception(failure);
}

} // namespace tpc::rt
