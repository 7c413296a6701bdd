//===- WaitWord.cpp - Counter that threads wait on ------------------------===//

#include "transport/threads/WaitWord.h"

namespace tpc::rt {

bool WaitWord::tryAdvance(uint32_t unless) {
  uint32_t old = word.value.load(std::memory_order_seq_cst);
  do {
    if (old & unless)
      return false;
  } while (!word.value.compare_exchange_weak(old, (old & ~countMask) | ((old + 1) & countMask),
                                             std::memory_order_seq_cst));
  word.wakeAll();
  return true;
}

void WaitWord::setFlag(uint32_t flag) {
  word.value.fetch_or(flag, std::memory_order_seq_cst);
  word.wakeAll();
}

} // namespace tpc::rt
