//===- Watchdog.h - Heartbeat watchdog of the processes of a world --------===//
//
// Each process has a thread that exchanges heartbeats with rank 0's thread over a dedicated socket,
// ten times a second. Rank 0 can therefore distinguish a computing rank from a waiting one, and
// from a process that has ended or is frozen. It ends a run that cannot continue, with one message,
// in these cases:
//
//   * A process whose socket closes without a Bye message was killed or has crashed.
//   * A process that sends nothing for some seconds is frozen (stopped, or its host is gone),
//     unless it is observably traced by a debugger or waiting for a core (PeerState.h). Only time
//     in which the listener itself could run counts: if the whole job is suspended, no rank is at
//     fault.
//   * A process that received SIGTERM alone. Launchers send it to all.
//   * All ranks wait for each other, and nothing is transferred, for `timeout` seconds: a deadlock.
//     While any rank computes or transfers, this time does not count.
//   * A rank waits for another rank that has reached the end of the run.
//
// All other ranks watch rank 0. If it is gone, the first to detect this reports it, once on each
// host. Processes of the same host kill frozen processes, so that none remains.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_WATCHDOG_H
#define TPC_RT_CORE_WATCHDOG_H

#include "core/HangDetector.h"
#include "core/Heartbeat.h"
#include "core/MessageClaim.h"
#include "core/MessageSocket.h"
#include "core/PeerState.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tpc::rt {

class World;

class Watchdog {
public:
  struct Member {
    std::unique_ptr<MessageSocket> channel; ///< rank 0: to each other rank; other ranks: to rank 0
    int64_t process = 0;                    ///< process number on its host
    uint64_t host = 0;                      ///< equal for processes with common process numbers
    std::string address;                    ///< name or address of its host, for messages
  };

  /// `members` by rank. `timeout`: as Session::timeout; 0 also disables the check for frozen
  /// processes.
  Watchdog(int rank, std::vector<Member> members, double timeout);
  /// Collective: orderly end of this process. Returns when all processes end, or at once during
  /// stack unwinding.
  ~Watchdog();

  /// Sets the running world, whose grid names ranks, or null.
  void observe(World *world);
  /// Sets the description of work outside of collectives; default: "at the start".
  void follow(const std::atomic<const char *> &doing);

  /// Records that the rank has waited for these ranks for some milliseconds.
  void waitsFor(const std::vector<int> &awaited);
  /// Records progress: a transfer, or the end of a wait.
  void moves();
  /// Sets whether the rank has reached the end of a run.
  void setLeft(bool left);
  /// Informs the other ranks that this rank has failed and has printed the reason; they then end.
  /// Returns when they are informed.
  void failWorld();
  /// "rank 1 (tp 1)"
  std::string describe(int rank) const;

private:
  struct Other;
  using Clock = std::chrono::steady_clock;

  void run();
  bool isHub() const { return rank == 0; }
  /// Current heartbeat of this rank.
  Heartbeat heartbeat() const;
  void receive(int from, MessageSocket::MessageType type, std::string_view text);
  /// Checks all ranks; `seconds`: time since the last check in which this process could run.
  void judge(double seconds);
  /// Checks the connection to a rank, and whether that rank is frozen.
  void judgeConnection(int of, double seconds);
  /// Checks whether only some ranks, this one or another, received SIGTERM.
  void judgeTermination(double seconds);
  /// Prints, once, that only this rank received SIGTERM.
  void reportOwnTermination();
  void judgeWaits(double seconds);
  /// Whether `waiting` waits for a rank that has reached the end of the run.
  bool waitsForEnded(int waiting) const;
  /// Whether `waiting` has waited for some time for `awaited`, which is at the end of the run.
  /// Requires a heartbeat of both from the end of that time: a rank that is stopped now may have
  /// continued after its last heartbeat.
  bool hasWaitedForEnded(int waiting, int awaited) const;
  /// Whether all have sent Bye, or rank 0 has.
  bool isOver() const;
  std::string lastSeen(int of) const;
  /// Returns the hang analysis of the known states of all ranks.
  HangDetector hangDetector() const;
  /// Ends all processes. `culprit`: rank whose process is killed, or -1. `isCut`: the error is a
  /// broken connection, which the rank at the other end may also report.
  [[noreturn]] void endAll(const std::string &error, int culprit, bool reportsWaits,
                           bool isCut = false);
  /// Informs the other ranks, and gives them a moment.
  void informOthers(int culprit, bool reportsWaits);
  void reportOwnWait();
  /// Ends this process without informing the others.
  [[noreturn]] void leave();
  /// Kills the processes of this host that cannot end by themselves: stopped processes, and the
  /// process of the rank `culprit`, if any.
  void killStopped(int culprit) const;
  /// Whether this rank reports why the run ends: one rank per host does. `culprit`: rank at fault,
  /// or -1.
  bool claimReport(bool isCut, int culprit);
  /// Whether another process of this host still runs and is not stopped.
  bool hasLivePeerOnHost() const;
  [[noreturn]] void endByLauncher();

  const int rank;
  const double timeout;
  std::vector<Other> others; ///< by rank

  mutable std::mutex mutex; // guards the members below
  World *world = nullptr;
  const std::atomic<const char *> *doing = nullptr;
  bool waits = false;
  std::vector<int> awaited;
  bool ending = false, failing = false, informed = false;
  std::condition_variable changed;

  std::atomic<bool> left{false}, hasWaited{false};
  std::atomic<uint64_t> movements{0};
  double idle = 0;        ///< seconds during which all ranks have waited
  double terminated = -1; ///< seconds since SIGTERM arrived
  bool isTerminatedAlone = false, sentBye = false;
  int wakeUp = -1;
  MessageClaim messageClaim;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WATCHDOG_H
