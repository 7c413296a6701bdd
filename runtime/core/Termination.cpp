//===- Termination.cpp - SIGTERM from a launcher --------------------------===//

#include "core/Termination.h"
#include <atomic>
#include <csignal>
#include <mutex>
#include <sys/eventfd.h>

namespace tpc::rt {

namespace {

std::mutex mutex; // guards the members below
int expecting = 0;
std::atomic<bool> requested{false};
std::atomic<int> descriptor{-1};

void note(int) {
  requested.store(true);
  eventfd_write(descriptor.load(), 1);
}

} // namespace

void Termination::expect() {
  std::lock_guard<std::mutex> lock(mutex);
  if (expecting++)
    return;
  if (descriptor.load() < 0)
    descriptor.store(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  struct sigaction old;
  if (sigaction(SIGTERM, nullptr, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
      old.sa_handler == SIG_DFL) {
    struct sigaction mine{};
    mine.sa_handler = note;
    mine.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &mine, nullptr);
  }
}

void Termination::forget() {
  std::lock_guard<std::mutex> lock(mutex);
  struct sigaction old;
  if (--expecting == 0 && sigaction(SIGTERM, nullptr, &old) == 0 && old.sa_handler == note)
    std::signal(SIGTERM, SIG_DFL);
  // Raises a signal again that arrived too late for the watchdog.
  if (expecting == 0 && requested.load())
    std::raise(SIGTERM);
}

bool Termination::isRequested() { return requested.load(); }
int Termination::event() { return descriptor.load(); }

} // namespace tpc::rt
