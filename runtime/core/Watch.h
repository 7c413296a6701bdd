//===- Watch.h - who of a world of processes is alive ---------------------===//
//
// A thread of each process and that of rank 0 tell each other, over a line of their own, ten times
// a second what their ranks are at. So rank 0 can tell a rank that computes from one that waits,
// and from a process that has ended or is frozen. When the run cannot go on it says why, once, and
// all processes end:
//
//   * A process whose line is closed without a word of farewell was killed, or has crashed.
//   * One that says nothing for some seconds is frozen (stopped, or its host is gone), unless it
//     can be seen to be held by a debugger or to wait for a core (PeerState.h). Only time in which
//     the listener itself could run counts: if the whole job is suspended, nobody is at fault.
//   * One that alone was asked to end by SIGTERM. Launchers ask all.
//   * All wait for each other, and nothing is transferred, for `timeout` seconds: a deadlock. As
//     long as somebody computes or transfers, nobody has waited for too long.
//   * One waits for another that is at the end of the run.
//
// Who watches rank 0 are all others; if it is gone, the first to see it says so, once on each host.
// The frozen are killed by the processes of their host, so that nothing is left behind.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_WATCH_H
#define TPC_RT_CORE_WATCH_H

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

class Watch {
public:
  struct Member {
    std::unique_ptr<MessageSocket>
        line;            ///< of rank 0 to each other rank, of each other rank to rank 0
    int64_t process = 0; ///< its number on its host
    uint64_t host = 0;   ///< the same for processes that can see each other's numbers
    std::string address; ///< of its host, for messages
  };

  /// `members` by rank. `timeout`: as Session::timeout; 0 also exempts the frozen.
  Watch(int rank, std::vector<Member> members, double timeout);
  /// Collective: this process ends in order. Returns when all do, or at once while an exception
  /// is under way.
  ~Watch();

  /// The world that runs, whose grid names ranks, or null.
  void observe(World *world);
  /// What is done outside of collectives; without it, "at the start".
  void follow(const std::atomic<const char *> &doing);

  /// The rank has waited for some milliseconds, and waits for these.
  void waitsFor(const std::vector<int> &missing);
  /// Something was transferred, or what was waited for is there.
  void moves();
  /// At the end of a run, or no longer.
  void setLeft(bool left);
  /// This rank has failed and has said so: returns when the others know, which then end.
  void failWorld();
  /// "rank 1 (tp 1)"
  std::string describe(int rank) const;

private:
  struct Other;
  using Clock = std::chrono::steady_clock;

  void run();
  bool isHub() const { return rank == 0; }
  /// This rank's own, now.
  Heartbeat beat() const;
  void hear(int from, MessageSocket::Word word, std::string_view text);
  /// Judges, when `seconds` more have passed in which this process could run.
  void judge(double seconds);
  void judgeLine(int of, double seconds);
  /// Whether this rank, or another, was asked to end and others were not.
  void judgeTermination(double seconds);
  /// Prints, once, that this rank was asked to end and others were not.
  void reportOwnTermination();
  void judgeWaits(double seconds);
  bool waitsForEnded(int waiting) const;
  /// All have said farewell, or the hub has.
  bool isOver() const;
  std::string lastSeen(int of) const;
  /// Of what is known of all ranks.
  HangDetector standstill() const;
  /// Ends all processes. `culprit`: whose process is to be killed, or -1.
  /// `isCut`: of a link, which a rank at its other end may report as well.
  [[noreturn]] void endAll(const std::string &error, int culprit, bool sayWaits,
                           bool isCut = false);
  /// The others are told, and have a moment.
  void tell(int culprit, bool sayWaits);
  void sayOwnWait();
  /// Ends this process; nobody else is told.
  [[noreturn]] void leave();
  /// The processes of this host that cannot end by themselves: all that are stopped, and that of
  /// `culprit`, if there is one.
  void killStopped(int culprit) const;
  /// Whether it is for this rank to say why the run ends: for one on each host.
  bool becomeSpeaker(bool isCut);
  /// Whether another process of this host has not ended yet, and is not stopped.
  bool anyoneNear() const;
  [[noreturn]] void endByLauncher();

  const int rank;
  const double timeout;
  std::vector<Other> others; ///< by rank

  mutable std::mutex mutex; // of what follows
  World *world = nullptr;
  const std::atomic<const char *> *doing = nullptr;
  bool waits = false;
  std::vector<int> missing;
  bool ending = false, failing = false, told = false;
  std::condition_variable changed;

  std::atomic<bool> left{false}, hasWaited{false};
  std::atomic<uint64_t> movements{0};
  double idle = 0;        ///< seconds in which everybody has waited
  double terminated = -1; ///< seconds since the launcher asked this process to end
  bool isTerminatedAlone = false, saidBye = false;
  int wakeUp = -1;
  MessageClaim speaker;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WATCH_H
