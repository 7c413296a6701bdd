//===- Messenger.cpp - Wait for messages ----------------------------------===//

#include "transport/messages/Messenger.h"
#include "core/SpinWait.h"

namespace tpc::rt {

Messenger::~Messenger() = default;

void deliver(Messenger &messenger, Watchdog &watch, bool spin, std::span<const Message> sends,
             std::span<const Message> receives) {
  constexpr int64_t reportInterval = 20'000'000; // nanoseconds between reports to the watchdog
  messenger.start(sends, receives);
  tpc_spin awake = tpc_spin_begin(spin, messenger.yields());
  std::vector<int> awaited;
  int64_t began = 0, nextReport = 0;
  for (;;) {
    Messenger::Progress progress = messenger.advance();
    if (progress != Messenger::Progress::None)
      watch.moves();
    if (progress == Messenger::Progress::Delivered)
      return;
    if (progress == Messenger::Progress::Some || tpc_spin_again(&awake))
      continue;
    int64_t now = tpc_spin_clock();
    if (began == 0) {
      began = now;
      nextReport = now + reportInterval;
    }
    if (now >= nextReport) {
      awaited.clear();
      messenger.findAwaited(awaited);
      watch.waitsFor(awaited);
      nextReport = now + reportInterval;
    }
    messenger.sleep(static_cast<double>(now - began) * 1e-9);
  }
}

} // namespace tpc::rt
