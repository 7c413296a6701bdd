//===- LaunchMonitor.h - Monitor of the launcher and of sibling ranks -----===//
//
// Ranks watch each other (Watchdog.h) only after they have connected. Before and after that, a
// thread of each process monitors the processes of this host through /proc, for these events:
//
//   * The launcher has ended. This process then ends too, so that no rank keeps running. Processes
//     that a script started continue without it.
//   * At start-up, and at the end of a process under MPI: a rank of the same launcher is stopped or
//     has ended. The message names that rank; stopped ranks are killed.
//   * At start-up, a rank that the launcher started on this host is absent: it ended before the
//     first check, or runs another program.
//   * At start-up, the launcher sends SIGTERM to all ranks. The message first names a rank that
//     ended before.
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
  std::multimap<int, PeerProcess> find();
  /// Whether the launcher started any process as rank 0, of any program and run.
  bool hasRankZero() const;
  /// Whether the launcher started other processes as ranks, of any program and run.
  bool exist() const;

  /// Returns the ranks, of any program, among the launcher's children at the last check, including
  /// this one.
  const std::set<int> &started() const { return ranks; }
  /// Whether all children of the launcher had executed their program at the last check.
  bool isQuiet() const { return quiet; }

private:
  /// Rank of a process; -1 if it is no sibling.
  int rankOf(int64_t process) const;
  /// Rank number that the launcher gave a process; -1: none, or the process has ended.
  int startedAs(int64_t process) const;
  /// Adds the siblings among a child of the launcher and its descendants.
  void add(int64_t child, int depth, std::multimap<int, PeerProcess> &found);

  const Launcher launcher;
  PeerProcess parent; ///< the launcher, or the script that started all ranks
  std::set<int> ranks;
  bool quiet = false;
  struct Known {
    int rank;
    PeerProcess process;
  };
  /// Siblings at the last check and at this one, by process number.
  std::map<int64_t, Known> known, seen;
  /// Processes that the launcher started, by process number.
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
  /// Called when the ranks have connected and watch each other.
  static void noteThatRanksHaveMet();
  /// Whether this process should report an error about `rank`: no other process of this host has
  /// reported it during start-up.
  static bool claimReport(int rank);
  /// Called when a rank has printed, or is about to print, the reason of a failed start-up. Ranks
  /// that end later are not named.
  static void noteFailure();
  /// Whether the reason for which this process ends has been printed, by this or another rank.
  static bool hasReported();
  /// Sets whether this process informs other ranks, and ends some seconds later for that.
  static void delaysEnd(bool is);

private:
  struct Fate {
    bool isStopped = false;  ///< whether it was stopped at the last check
    bool wasStopped = false; ///< whether it was stopped when it was last seen
    double stopped = 0, gone = 0;
  };
  void run();
  /// `isFull`: also checks whether control groups of siblings are frozen, which takes longer.
  void judgeSiblings(double passed, bool isFull, Phase now);
  /// Checks for absent ranks that the launcher started on this host.
  void judgeMissing(double passed);
  /// After SIGTERM at start-up: ends this process by SIGTERM, after a short delay.
  [[noreturn]] void endTerminated();
  void report(const std::string &subject, const std::string &message) const;
  /// Reports an error and ends this process. `isFrozen`: the subject is a stopped rank. Kills
  /// stopped siblings.
  [[noreturn]] void end(const std::string &subject, const std::string &message,
                        bool isFrozen = false);
  /// Returns after `seconds`, or when a launcher's SIGTERM arrives.
  static void awaitTermination(double seconds);

  const Launcher launcher;
  const double timeout;
  PeerProcess process; ///< the launcher
  Siblings siblings;
  std::map<int, Fate> fates;
  double missing = 0;        ///< seconds during which fewer ranks existed than the launcher started
  bool isSuspicious = false; ///< a sibling was stopped or gone at the last check
  std::atomic<Phase> phase{Phase::Start};
  std::atomic<bool> over{false};
  int wakeUp = -1;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAUNCHMONITOR_H
