//===- WatchPeer.h - Watchdog's state of another rank ---------------------===//

#ifndef TPC_RT_CORE_WATCHPEER_H
#define TPC_RT_CORE_WATCHPEER_H

#include "core/Watch.h"

namespace tpc::rt {

struct Watch::Other {
  std::unique_ptr<MessageSocket> line;
  PeerProcess process;
  uint64_t host = 0;
  std::string address; ///< if it is on another host
  Heartbeat beat;
  Silence silence;
  bool heard = false, saidBye = false, wasTerminated = false;
  double closed = 0, stuck = 0, terminated = 0;
};

/// Text of the message type Verdict.
struct VerdictText {
  int32_t culprit;
  int32_t sayWaits;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WATCHPEER_H
