//===- Parallel.cpp - Threads of one rank ---------------------------------===//

#include "cpu/Parallel.h"
#include "core/Context.h"
#include "core/Futex.h"
#include "core/World.h"
#include <algorithm>
#include <atomic>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace tpc::rt {
namespace {

struct Region {
  void (*fn)(void *, int64_t, int);
  void *state;
  int64_t tasks;
  std::atomic<int64_t> next{0};
};

void work(Region &region, int worker) {
  for (int64_t task; (task = region.next.fetch_add(1, std::memory_order_relaxed)) < region.tasks;)
    region.fn(region.state, task, worker);
}

/// Helper threads of one rank's thread; they end with it.
class Pool {
public:
  ~Pool() {
    announce(0, stop);
    for (std::thread &t : threads)
      t.join();
  }

  void run(Region &newRegion, unsigned helpers, bool maySpin) {
    while (threads.size() < helpers) {
      try {
        threads.emplace_back([this, number = unsigned(threads.size()), seen = word.value.load()] {
          serve(number, seen);
        });
      } catch (const std::system_error &) {
        helpers = unsigned(threads.size()); // continues with the existing threads
      }
    }
    region = &newRegion;
    spin.store(maySpin, std::memory_order_relaxed);
    gate.value.store(announced() | open);
    announce(helpers, 0);
    work(newRegion, 0);
    gate.value.fetch_and(~open);
    gate.wait(maySpin, 0, [](uint32_t now) { return (now & helperMask) == 0; });
  }

private:
  // `word` contains the region's number (a counter, so that each number is unique) and its number
  // of helpers. `gate` contains the number of the open region, if any, and the number of helpers
  // inside. Helpers that arrive after the last task was taken do not enter, and the caller does not
  // wait for them.
  static constexpr uint32_t helperMask = 0xfff, stop = 0x1000, open = 0x1000, next = 0x2000;

  /// Counter of the next region.
  uint32_t announced() const {
    return (word.value.load(std::memory_order_relaxed) & ~(helperMask | stop)) + next;
  }
  void announce(uint32_t helpers, uint32_t flag) {
    word.value.store(announced() | flag | helpers);
    word.wakeAll();
  }

  bool enter(uint32_t counter) {
    uint32_t now = gate.value.load();
    while ((now & ~helperMask) == (counter | open))
      if (gate.value.compare_exchange_weak(now, now + 1))
        return true;
    return false;
  }
  void leave() {
    uint32_t before = gate.value.fetch_sub(1);
    if ((before & helperMask) == 1 && !(before & open))
      gate.wakeAll();
  }

  void serve(unsigned number, uint32_t seen) {
    while (true) {
      seen = *word.wait(spin.load(std::memory_order_relaxed), 0,
                        [&](uint32_t now) { return now != seen; });
      if (seen & stop)
        return;
      if (number >= (seen & helperMask) || !enter(seen & ~(helperMask | stop)))
        continue;
      work(*region, static_cast<int>(number) + 1);
      leave();
    }
  }

  std::vector<std::thread> threads;
  Region *region = nullptr;
  std::atomic<bool> spin{false}; // whether helpers spin before they sleep; set by each caller
  Futex word, gate;
};

} // namespace

void runTasks(const tpc_context &ctx, int threads, int64_t tasks, void (*fn)(void *, int64_t, int),
              void *state) {
  threads = static_cast<int>(std::min<int64_t>({threads, tasks, 4096}));
  if (threads <= 1) {
    for (int64_t task = 0; task < tasks; ++task)
      fn(state, task, 0);
    return;
  }
  thread_local Pool pool;
  Region region{fn, state, tasks};
  pool.run(region, static_cast<unsigned>(threads) - 1, ctx.world.maySpin());
}

} // namespace tpc::rt
