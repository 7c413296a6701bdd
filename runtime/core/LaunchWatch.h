//===- LaunchWatch.h - the launcher, and its other ranks on this host -----===//
//
// Ranks watch each other (Watch.h) only after they have met. A thread of each process covers what
// comes before and after, by what /proc shows of this host:
//
//   * The launcher has ended: this process ends as well, so that no rank is left behind. Processes
//     that a script has started go on without it.
//   * At the start, and at the end of a process under MPI: a rank of the same launcher is stopped,
//     or has ended. It is named, and those that are stopped are killed.
//   * At the start, the launcher ends all by SIGTERM: a rank that had ended before is named first.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_LAUNCHWATCH_H
#define TPC_RT_CORE_LAUNCHWATCH_H

#include "core/Launcher.h"
#include "core/PeerState.h"
#include <atomic>
#include <map>
#include <thread>
#include <vector>

namespace tpc::rt {

/// The processes of this host that the launcher has started as ranks of the same run: children of
/// one parent that run the same file with the same variables.
class Siblings {
public:
  explicit Siblings(const Launcher &launcher) : launcher(launcher) {}

  /// Those that there are now, by rank, without this process.
  std::multimap<int, PeerProcess> look();
  /// Whether the launcher has a process as rank 0, of whatever program and run.
  bool hasRankZero() const;

private:
  /// Its rank; -1 if it is no sibling.
  int rankOf(int64_t process) const;

  const Launcher launcher;
  struct Known {
    int rank;
    PeerProcess process;
  };
  std::map<int64_t, Known> known; ///< by number
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
    bool isStopped = false; ///< at the last look for that
    double stopped = 0, gone = 0;
  };
  void run();
  /// `isFull`: also whether they are stopped, which takes longer to find.
  void judgeSiblings(double passed, bool isFull, Phase now);
  /// After SIGTERM at the start: this process ends by it, a moment later.
  [[noreturn]] void endTerminated();
  void report(const std::string &subject, const std::string &message) const;
  [[noreturn]] void end(const std::string &subject, const std::string &message);

  const Launcher launcher;
  const double timeout;
  PeerProcess process; ///< the launcher's
  Siblings siblings;
  std::map<int, Fate> fates;
  std::atomic<Phase> phase{Phase::Start};
  std::atomic<bool> over{false};
  int wakeUp = -1;
  std::thread thread;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAUNCHWATCH_H
