//===- Futex.cpp - Word in memory that threads of this process wait on ----===//

#include "core/Futex.h"
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tpc::rt {

static_assert(sizeof(std::atomic<uint32_t>) == 4, "the kernel compares the word itself");

// A waiter increments the waiter count, then the kernel compares the word. A waker changes the
// word, then reads the waiter count. All accesses are sequentially consistent, so no wake-up is
// lost.

void Futex::wakeAll() {
  if (sleepers.load(std::memory_order_seq_cst))
    syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Futex::sleep(uint32_t seen, bool endless) {
  timespec interval{0, static_cast<long>(Timeout::longestInterval * 1e9)};
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, endless ? nullptr : &interval, nullptr, 0);
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

} // namespace tpc::rt
