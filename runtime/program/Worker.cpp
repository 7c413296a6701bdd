//===- Worker.cpp - Worker thread of the library --------------------------===//

#include "program/Worker.h"
#include <csignal>
#include <pthread.h>
#include <utility>

namespace tpc::rt {
namespace {

/// Blocks asynchronous signals for threads started during its lifetime, and their descendants.
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
  thread = std::thread([this] { loop(); });
}

Worker::~Worker() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  changed.notify_one();
  thread.join();
}

std::future<void> Worker::post(std::function<void()> task) {
  std::packaged_task<void()> packaged(std::move(task));
  std::future<void> done = packaged.get_future();
  {
    std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back(std::move(packaged));
  }
  changed.notify_one();
  return done;
}

void Worker::loop() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return !tasks.empty() || ending; });
    if (tasks.empty())
      return;
    std::packaged_task<void()> task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

} // namespace tpc::rt
