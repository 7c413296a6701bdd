//===- LaunchMonitor.h - Monitor of the launcher and of sibling ranks -----===//
//
// Ranks watch each other (Watchdog.h) only after they have connected. Before and after that, a
// thread of each process monitors the processes of this host through /proc:
//
//   * The launcher has ended: this process ends too, so that no rank is left over. Processes that a
//     script started continue without it.
//   * At start-up, and at the end of a process under MPI: a rank of the same launcher is stopped or
//     has ended. The message names it; stopped ranks are killed.
//   * At start-up, a rank that the launcher started on this host is absent: it ended before the
//     first check, or runs another program.
//   * At start-up, the launcher sends SIGTERM to all: the message first names a rank that ended
//     before.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_LAUNCHMONITOR_H
#define TPC_RT_CORE_LAUNCHMONITOR_H

#include "core/Launcher.h"
#include "core/PeerState.h"
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace tpc::rt {

/// Processes of this host that the launcher started as ranks of the same run: its children, also
/// through scripts, with the same executable and the same variables.
class Siblings {
public:
  explicit Siblings(const Launcher &launcher);

  /// Returns the current siblings by rank, without this process.
  std::multimap<int, PeerProcess> look();
  /// Whether the launcher has a process as rank 0, of any program and run.
  bool hasRankZero() const;
  /// Whether the launcher has other processes as ranks, of any program and run.
  bool exist() const;

  /// Ranks, of any program, among the launcher's children at the last check, including this one.
  const std::set<int> &started() const { return ranks; }
  /// Whether the launcher was not starting a process at the last check.
  bool isQuiet() const { return quiet; }

private:
  /// Rank of a process; -1 if it is no sibling.
  int rankOf(int64_t process) const;
  /// Rank that the launcher started a process as; -1: none, or it has ended.
  int startedAs(int64_t process) const;
  /// Adds siblings at or below a child of the launcher.
  void add(int64_t child, int depth, std::multimap<int, PeerProcess> &found);

  const Launcher launcher;
  PeerProcess parent; ///< the launcher, or the script that started all ranks
  std::set<int> ranks;
  bool quiet = false;
  struct Known {
    int rank;
    PeerProcess process;
  };
  std::map<int64_t, Known> known, seen; ///< by process number; at the last check and at this one
  /// by process number; processes that the launcher started
  mutable std::map<int64_t, Known> starts;
};

class LaunchMonitor {
public:
  /// `timeout`: as for a session; 0 disables the check for frozen processes.
  LaunchMonitor(const Launcher &launcher, double timeout);
  ~LaunchMonitor();
  LaunchMonitor(const LaunchMonitor &) = delete;
  LaunchMonitor &operator=(const LaunchMonitor &) = delete;

  enum class Phase { Start, Run, End };
  void enter(Phase phase);
  /// Whether this process is about to end because of a monitor's finding.
  static bool endsProcess();
  /// Ranks watch each other from now on.
  static void noteThatRanksHaveMet();
  /// A rank has printed, or is about to print, why start-up failed. Ranks that end after that are
  /// not named.
  static void noteFailure();

private:
  struct Fate {
    bool isStopped = false;  ///< at the last check for stopped processes
    bool wasStopped = false; ///< when it was last seen
    double stopped = 0, gone = 0;
  };
  void run();
  /// `isFull`: also checks whether siblings are stopped, which takes longer.
  void judgeSiblings(double passed, bool isFull, Phase now);
  /// Checks for ranks on this host that the launcher started and that are absent.
  void judgeMissing(double passed);
  /// After SIGTERM at start-up: ends this process by SIGTERM, after a short delay.
  [[noreturn]] void endTerminated();
  void report(const std::string &subject, const std::string &message) const;
  [[noreturn]] void end(const std::string &subject, const std::string &message);

  const Launcher launcher;
  const double timeout;
  PeerProcess process; ///< the launcher
  Siblings siblings;
  std::map<int, Fate> fates;
  double missing = 0; ///< seconds during which fewer ranks existed than the launcher started
  std::atomic<Phase> phase{Phase::Start};
  std::atomic<bool> over{false};
  int wakeUp = -1;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAUNCHMONITOR_H
