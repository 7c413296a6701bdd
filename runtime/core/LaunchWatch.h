//===- LaunchWatch.h - the launcher, and its other ranks on this host -----===//
//
// Ranks watch each other (Watch.h) only after they have met. A thread of each process covers what
// comes before and after, by what /proc shows of this host:
//
//   * The launcher has ended: this process ends as well, so that no rank is left behind. Processes
//     that a script has started go on without it.
//   * At the start, and at the end of a process under MPI: a rank of the same launcher is stopped,
//     or has ended. It is named, and those that are stopped are killed.
//   * At the start, a rank that the launcher has started on this host is not there: it has ended
//     before this process looked, or was another program.
//   * At the start, the launcher ends all by SIGTERM: a rank that had ended before is named first.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_LAUNCHWATCH_H
#define TPC_RT_CORE_LAUNCHWATCH_H

#include "core/Launcher.h"
#include "core/PeerState.h"
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace tpc::rt {

/// The processes of this host that the launcher has started as ranks of the same run: its children,
/// also below scripts, that run the same file with the same variables.
class Siblings {
public:
  explicit Siblings(const Launcher &launcher);

  /// Those that there are now, by rank, without this process.
  std::multimap<int, PeerProcess> look();
  /// Whether the launcher has a process as rank 0, of whatever program and run.
  bool hasRankZero() const;
  /// Whether the launcher has other processes as ranks, of whatever program and run.
  bool exist() const;

  /// Ranks, of whatever program, among the launcher's children at the last look, with this one.
  const std::set<int> &started() const { return ranks; }
  /// Whether the launcher was not starting a process at the last look.
  bool isQuiet() const { return quiet; }

private:
  /// Its rank; -1 if it is no sibling.
  int rankOf(int64_t process) const;
  /// The rank that the launcher has started a process as; -1: none, or it has ended.
  int startedAs(int64_t process) const;
  /// Siblings at a child of the launcher, or below it.
  void add(int64_t child, int depth, std::multimap<int, PeerProcess> &found);

  const Launcher launcher;
  PeerProcess parent; ///< the launcher, or the script that has started all
  std::set<int> ranks;
  bool quiet = false;
  struct Known {
    int rank;
    PeerProcess process;
  };
  std::map<int64_t, Known> known, seen;    ///< by number; at the last look and at this one
  mutable std::map<int64_t, Known> starts; ///< by number; what the launcher has started
};

class LaunchWatch {
public:
  /// `timeout`: as that of a session; 0 exempts the frozen.
  LaunchWatch(const Launcher &launcher, double timeout);
  ~LaunchWatch();
  LaunchWatch(const LaunchWatch &) = delete;
  LaunchWatch &operator=(const LaunchWatch &) = delete;

  enum class Phase { Start, Run, End };
  void enter(Phase phase);
  /// Whether this process is about to end because of what such a watch has found.
  static bool endsProcess();
  /// Ranks watch each other from now on.
  static void noteThatRanksHaveMet();
  /// Some rank has printed, or is about to print, why the start has failed: ranks that end after
  /// that are not named.
  static void noteFailure();

private:
  struct Fate {
    bool isStopped = false;  ///< at the last look for that
    bool wasStopped = false; ///< when it was seen last
    double stopped = 0, gone = 0;
  };
  void run();
  /// `isFull`: also whether they are stopped, which takes longer to find.
  void judgeSiblings(double passed, bool isFull, Phase now);
  /// Ranks of this host that are not there, of those that the launcher has started.
  void judgeMissing(double passed);
  /// After SIGTERM at the start: this process ends by it, a moment later.
  [[noreturn]] void endTerminated();
  void report(const std::string &subject, const std::string &message) const;
  [[noreturn]] void end(const std::string &subject, const std::string &message);

  const Launcher launcher;
  const double timeout;
  PeerProcess process; ///< the launcher's
  Siblings siblings;
  std::map<int, Fate> fates;
  double missing = 0; ///< seconds in which fewer ranks were there than the launcher has started
  std::atomic<Phase> phase{Phase::Start};
  std::atomic<bool> over{false};
  int wakeUp = -1;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAUNCHWATCH_H
