//===- PeerState.h - Observable state of another rank's process -----------===//

#ifndef TPC_RT_CORE_PEERSTATE_H
#define TPC_RT_CORE_PEERSTATE_H

#include <cstdint>
#include <string>

namespace tpc::rt {

/// Name of the thread that sends a rank's heartbeats (Watchdog.h), for `PeerProcess::countWaits`.
constexpr const char *watchThreadName = "tpc-watch";

struct PeerState {
  /// 'T' stopped, 't' traced by a debugger, another letter, or 0 if there is no such process.
  char state = 0;
  /// Start time: distinguishes processes with a reused number.
  uint64_t begin = 0;
  int64_t parent = 0;
  bool exits = false;

  explicit PeerState(int64_t process);
};

/// Process of another rank, by its number and start time.
class PeerProcess {
public:
  PeerProcess() = default;
  /// `isNear`: the process is on this host, so its state is observable.
  PeerProcess(int64_t process, bool isNear);

  enum class State {
    Unseen,  ///< not observable: on another host, or gone
    Ended,   ///< zombie
    Stopped, ///< stopped by a signal
    Frozen,  ///< frozen by its cgroup
    Traced,  ///< traced by a debugger
    Asleep,  ///< no thread runs or waits for a core
    Runs,    ///< runs, or waits for a core or for a disk
  };
  State state() const;
  int64_t number() const { return process; }
  bool isStopped() const;
  /// Whether it is stopped by a signal. Cheaper than `isStopped`.
  bool isStoppedBySignal() const;
  /// Whether it has ended; false if unknown.
  bool hasEnded() const;
  /// Whether it is observable and not exiting.
  bool isAlive() const;
  /// Number of waits of the thread that sends its heartbeats: its watchdog thread, or, before that
  /// exists, its main thread. 0 if unobservable.
  uint64_t countWaits() const;
  /// Sends SIGKILL if the number still belongs to that process.
  void kill() const;

private:
  int64_t process = 0;
  uint64_t begin = 0; ///< 0: on another host
};

/// Silence of a peer: time without a message, although it sends several per second.
class Silence {
public:
  /// Call at each check; `passed`: seconds since the last check in which this process could
  /// receive. Returns an empty string, or, if the silence exceeds that of a live peer: "is frozen:
  /// its process was stopped, 3 s ago". `address`: address of a peer on another host, for that
  /// text.
  std::string judge(bool received, double passed, const PeerProcess &peer,
                    const std::string &address = "");
  /// Seconds of silence after which a peer counts as frozen, if it is observably stopped; if it is
  /// unobservable or has no running thread; if it is alive but gets no core.
  static constexpr double ofStopped = 2, ofUnseen = 4, ofStarved = 60;
  /// Seconds of silence after which a peer that keeps sending counts as cut off.
  static constexpr double ofCutOff = 3.5;
  /// Whether the peer is alive but its messages do not arrive. Valid after `judge` has returned a
  /// text.
  bool isCutOff() const { return cutOff; }
  /// Whether the peer was stopped by a signal when it was last seen. Another rank may kill it.
  bool wasStopped() const { return stopped; }

private:
  double seconds = 0;
  uint64_t waits = 0; ///< waits of the peer's thread at the first check; 0: none yet
  bool cutOff = false, stopped = false;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_PEERSTATE_H
