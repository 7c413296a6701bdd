//===- WaitWord.cpp - a counter that threads wait on ----------------------===//

#include "transport/threads/WaitWord.h"
#include "core/Patience.h"
#include <climits>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tpc::rt {

namespace {

static_assert(sizeof(std::atomic<uint32_t>) == 4, "the kernel waits on the word itself");

// A wait looks, pauses, and now and then yields: the one it waits for may have been put on the same
// core. All of it takes about a hundred microseconds, longer than a small collective and about what
// it costs to put a core to sleep and to wake it.
constexpr int spins = 4000, spinsPerYield = 64;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

} // namespace

void WaitWord::wakeAll() {
  // Pairs with waitFor: a waiter announces itself, then the kernel compares the word; a waker
  // changes the word, then looks for announcements. All of it is sequentially consistent, so at
  // least one of them sees the other.
  if (sleepers.load(std::memory_order_seq_cst))
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool WaitWord::tryAdvance(uint32_t unless) {
  uint32_t old = word.load(std::memory_order_seq_cst);
  do {
    if (old & unless)
      return false;
  } while (!word.compare_exchange_weak(old, (old & ~countMask) | ((old + 1) & countMask),
                                       std::memory_order_seq_cst));
  wakeAll();
  return true;
}

void WaitWord::setFlag(uint32_t flag) {
  word.fetch_or(flag, std::memory_order_seq_cst);
  wakeAll();
}

Waited WaitWord::waitFor(uint32_t seen, bool spin, uint32_t flags, double timeout) {
  Patience patience(timeout);
  int left = spin ? spins : 0;
  for (;;) {
    uint32_t now = word.load(std::memory_order_seq_cst);
    if ((now & countMask) != seen)
      return Waited::Advanced;
    if (now & flags & stopFlag)
      return Waited::Stopped;
    if (now & flags & leftFlag)
      return Waited::Left;
    if (left > 0) {
      if (--left % spinsPerYield == 0)
        sched_yield();
      else
        pause();
      continue;
    }
    if (patience.isOver())
      return Waited::Late;
    timespec look{0, static_cast<long>(Patience::longestLook * 1e9)};
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    // Returns at once if the word is no longer `now`. Spurious returns only cost another look.
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, now, patience.isEndless() ? nullptr : &look,
            nullptr, 0);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

} // namespace tpc::rt
