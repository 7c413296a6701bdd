//===- WatchdogPeer.h - Watchdog's state of another rank ------------------===//

#ifndef TPC_RT_CORE_WATCHDOGPEER_H
#define TPC_RT_CORE_WATCHDOGPEER_H

#include "core/Watchdog.h"

namespace tpc::rt {

struct Watchdog::Other {
  std::unique_ptr<MessageSocket> channel;
  PeerProcess process;
  uint64_t host = 0;
  std::string address; ///< of the other end of `channel`
  Heartbeat heartbeat;
  Silence silence;
  bool received = false, sentBye = false, wasTerminated = false;
  double closed = 0;     ///< seconds since its connection was closed
  double stuck = 0;      ///< seconds for which it has waited for a rank that has ended
  double terminated = 0; ///< seconds since it reported SIGTERM
  double age = 0;        ///< seconds since its last heartbeat
};

/// Text of the message type Verdict.
struct VerdictText {
  int32_t culprit;
  int32_t reportsWaits;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WATCHDOGPEER_H
