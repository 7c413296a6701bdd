//===- Futex.h - a word that threads of this process wait on --------------===//

#ifndef TPC_RT_CORE_FUTEX_H
#define TPC_RT_CORE_FUTEX_H

#include "core/Spin.h"
#include "core/Timeout.h"
#include <atomic>
#include <cstdint>
#include <optional>

namespace tpc::rt {

/// Who changes `value`, sequentially consistent, calls `wakeAll` then.
class alignas(64) Futex {
public:
  std::atomic<uint32_t> value{0};

  void wakeAll();

  /// The first value for which `isDone` holds, or nothing after `timeout` seconds (0: never) in
  /// which `counts` held, which is asked now and then.
  template <class Done, class Counts>
  std::optional<uint32_t> wait(bool maySpin, double timeout, Done isDone, Counts counts) {
    Timeout patience(timeout);
    tpc_spin spin = tpc_spin_begin(maySpin, 0);
    for (;;) {
      uint32_t now = value.load(std::memory_order_seq_cst);
      if (isDone(now))
        return now;
      if (tpc_spin_again(&spin))
        continue;
      if (patience.isOver(patience.isEndless() || counts()))
        return std::nullopt;
      sleep(now, patience.isEndless());
    }
  }

  template <class Done> std::optional<uint32_t> wait(bool maySpin, double timeout, Done isDone) {
    return wait(maySpin, timeout, isDone, [] { return true; });
  }

private:
  /// Unless the value is no longer `seen`. May return for no reason, and does now and then if the
  /// wait has an end.
  void sleep(uint32_t seen, bool endless);

  std::atomic<uint32_t> sleepers{0};
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_FUTEX_H
