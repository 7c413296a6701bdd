//===- PeerState.h - what can be seen of a process of this host ---------------===//

#ifndef TPC_RT_CORE_PEERSTATE_H
#define TPC_RT_CORE_PEERSTATE_H

#include <cstdint>
#include <string>

namespace tpc::rt {

/// The name of the thread that sends a rank's heartbeats (Watch.h), for `PeerProcess::countWaits`.
constexpr const char *watchThreadName = "tpc-watch";

struct PeerState {
  /// 'T' stopped, 't' held by a debugger, another letter, or 0 if there is no such process.
  char state = 0;
  /// When it started: a number may be given to another process, later.
  uint64_t begin = 0;
  int64_t parent = 0;
  bool exits = false;

  explicit PeerState(int64_t process);
};

/// The process of another rank, by its number and its start time.
class PeerProcess {
public:
  PeerProcess() = default;
  /// `isNear`: it is on this host, where it can be seen.
  PeerProcess(int64_t process, bool isNear);

  enum class State {
    Unseen,  ///< on another host, or gone
    Ended,   ///< a zombie
    Stopped, ///< by a signal
    Frozen,  ///< by the freezer of its control group
    Traced,  ///< held by a debugger
    Asleep,  ///< no thread runs, or waits for a core
    Runs,    ///< or waits for a core, or for a disk
  };
  State state() const;
  int64_t number() const { return process; }
  bool isStopped() const;
  /// Certainly: not if it cannot be seen for another reason.
  bool hasEnded() const;
  /// Whether it is seen, and does not exit.
  bool isAlive() const;
  /// How often the thread that sends its heartbeats has waited: that of its watch, or, before there
  /// is one, the first. 0 if it cannot be seen.
  uint64_t countWaits() const;
  /// Sends SIGKILL if it is still that process.
  void kill() const;

private:
  int64_t process = 0;
  uint64_t begin = 0; ///< 0: it is not near
};

/// How long a peer has said nothing that says something several times a second.
class Silence {
public:
  /// Call at each look, after `passed` more seconds in which this process could listen. Empty, or,
  /// if the silence is longer than that of a live peer: "is frozen: its process was stopped, 3 s
  /// ago". `address`: where a peer of another host is, for that text.
  std::string judge(bool heard, double passed, const PeerProcess &peer,
                    const std::string &address = "");
  /// Until a peer that can be seen to be stopped counts as frozen; one that cannot be seen, or of
  /// which no thread runs; and one that is seen to live: it gets no core.
  static constexpr double ofStopped = 2.5, ofUnseen = 4, ofStarved = 60;
  /// And one that goes on sending what does not come.
  static constexpr double ofCutOff = 3.5;
  /// Whether the peer lives, and what it sends does not come: after `judge` has returned a text.
  bool isCutOff() const { return cutOff; }

private:
  double seconds = 0;
  uint64_t waits = 0; ///< of the peer's thread, when it was looked at first; 0: not yet
  bool cutOff = false;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_PEERSTATE_H
