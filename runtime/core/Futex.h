//===- Futex.h - Word in memory that threads of this process wait on ------===//

#ifndef TPC_RT_CORE_FUTEX_H
#define TPC_RT_CORE_FUTEX_H

#include "core/SpinWait.h"
#include "core/Timeout.h"
#include <atomic>
#include <cstdint>
#include <optional>

namespace tpc::rt {

/// A writer changes `value` with sequential consistency and then calls `wakeAll`.
class alignas(64) Futex {
public:
  std::atomic<uint32_t> value{0};

  void wakeAll();

  /// Waits for the first value for which `isDone` returns true. Returns nothing after `timeout`
  /// seconds (0: no timeout). Only time in which `counts`, which is polled, returns true counts.
  template <class Done, class Counts>
  std::optional<uint32_t> wait(bool maySpin, double timeout, Done isDone, Counts counts) {
    Timeout deadline(timeout);
    tpc_spin spin = tpc_spin_begin(maySpin, 0);
    for (;;) {
      uint32_t now = value.load(std::memory_order_seq_cst);
      if (isDone(now))
        return now;
      if (tpc_spin_again(&spin))
        continue;
      if (deadline.isOver(deadline.isEndless() || counts()))
        return std::nullopt;
      sleep(now, deadline.isEndless());
    }
  }

  template <class Done> std::optional<uint32_t> wait(bool maySpin, double timeout, Done isDone) {
    return wait(maySpin, timeout, isDone, [] { return true; });
  }

private:
  /// Sleeps unless the value differs from `seen`. Spurious wake-ups are possible, and are regular
  /// if the wait has a timeout.
  void sleep(uint32_t seen, bool endless);

  std::atomic<uint32_t> sleepers{0};
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_FUTEX_H
