//===- World.h - all ranks of a run ---------------------------------------===//
//
// A world is either all ranks as threads of this process, or this process as one rank among others
// that a launcher started (by MPI or TCP). Use:
//
//   Launcher launcher = detectLauncher();
//   std::shared_ptr<Session> session;
//   if (launcher.present && !(session = joinLauncher(launcher, error)))
//     ... say `error`, exit
//   ... compareRanks(session, identity): do all run the same?
//   ... compare session->size() with the grid's; session->agree() on errors that all ranks may find
//   auto world = session ? World::processes(grid, threads, session) : World::threads(grid,
//   threads); std::optional<std::string> error = world->run([&](tpc_context &ctx) { ... });
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_WORLD_H
#define TPC_RT_CORE_WORLD_H

#include "core/Context.h"
#include "core/LaunchWatch.h"
#include "core/Launcher.h"
#include "core/RankThreads.h"
#include "core/Transport.h"
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tpc::rt {

class DeviceWatch;
class World;

/// A connection to the other processes; made before the grid is compared with the world's size. Its
/// destructor ends it, collectively.
class Session {
public:
  virtual ~Session();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranksOnHost() const = 0;
  /// Cores that the ranks of this host may use together, whether each of them may use all or not.
  virtual int coresOnHost() const = 0;
  virtual std::unique_ptr<Transport> makeTransport(World &world) = 0;
  /// Collective. Whether any rank has an error, and whether this one is to say it: for errors that
  /// every rank may find at once, such as bad input.
  struct Agreement {
    bool failed = false;
    bool isSpeaker = false; ///< the lowest rank that has one
  };
  virtual Agreement agree(bool hasError) = 0;
  /// Collective. The lowest rank whose text differs from rank 0's, or -1.
  virtual int firstDifference(std::string_view text) = 0;
  /// Collective. What each rank says.
  virtual std::vector<std::string> textsOfAll(std::string_view text) = 0;
  /// This rank is at the end of a run. Collective; returns when all are.
  virtual void leave(tpc_context &ctx) = 0;
  /// "mpi", "tcp"
  virtual const char *transportName() const = 0;
  /// The world that runs on it, for messages that name ranks; null: none.
  virtual void observe(World *world) = 0;

  /// What is being done outside of a run, or by it, for the message of one that stands still:
  /// "while weights are loaded". Text that lives for ever.
  std::atomic<const char *> doing = "at the start";

  /// Watches the launcher as long as the session is there.
  std::unique_ptr<LaunchWatch> launch;
};

/// Something that must be the same on all ranks: what it is ("grid"), and its value in words or as
/// a digest.
struct Trait {
  std::string what, value;
};

/// Compares traits over all processes, one after the other; ranks must pass the same `what`s,
/// however different their programs are. The error names the lowest rank that differs from rank 0,
/// and the first trait that does. Only rank 0 has its text, on the others it is empty, so that it
/// is said once. Nothing for threads.
std::optional<std::string> compareRanks(Session *session, const std::vector<Trait> &traits);

/// Joins the world of the launcher. Null, with a message, if that cannot be done. `timeout`:
/// seconds after which ranks that all wait for each other, or one that is frozen, end the run; 0:
/// never.
std::shared_ptr<Session> joinLauncher(const Launcher &launcher, std::string &error,
                                      double timeout = 0);
/// Loads libtpc_mpi.so and initializes MPI.
std::shared_ptr<Session> joinMpi(const Launcher &launcher, std::string &error, double timeout);
/// Finds the other processes by the address of rank 0.
std::shared_ptr<Session> joinTcp(const Launcher &launcher, std::string &error, double timeout);

/// What ranks that are threads of this process share.
class LocalRanks {
public:
  virtual ~LocalRanks();
  virtual std::unique_ptr<Transport> makeTransport(int rank) = 0;
  /// All ranks are about to run.
  virtual void enter() = 0;
  /// `rank` has ended: whoever waits for it, or will, is told.
  virtual void leave(int rank) = 0;
  /// Whether it waits for others here, or has ended.
  virtual bool isWaiting(int rank) = 0;
};

/// For ranks that talk through memory.
std::shared_ptr<LocalRanks> joinThreads(World &world);

class World {
public:
  /// All ranks of `grid` in this process. `timeout`: as of joinLauncher.
  static std::unique_ptr<World> threads(Grid grid, int threadsPerRank, double timeout = 0);
  /// This process is one rank. The session's size must be the grid's.
  static std::unique_ptr<World> processes(Grid grid, int threadsPerRank,
                                          std::shared_ptr<Session> session);
  /// One rank that reaches nobody, for devices that do nothing: communication returns at once.
  /// What it is called for is called for on `local(0)`.
  static std::unique_ptr<World> alone(Grid grid, int rank);
  ~World();

  const Grid &grid() const { return theGrid; }
  int size() const { return theGrid.numRanks(); }
  /// Ranks of this process.
  int numLocal() const { return static_cast<int>(contexts.size()); }
  tpc_context &local(int index) const { return *contexts[index]; }
  /// That of a rank of this process.
  tpc_context &contextOf(int rank) const { return *contexts[rank - contexts[0]->rank]; }
  /// Null for threads.
  Session *session() { return theSession.get(); }
  /// Null for processes.
  LocalRanks *localThreads() { return localRanks.get(); }

  /// Runs `fn` on every rank of this process, each on a thread of its own that is kept for the next
  /// run (rank 0, or the only one, on the caller's), and returns when all have ended: the first
  /// error, or nothing. Exceptions other than RankStopped that leave `fn` count as errors of that
  /// rank. May be called again after success.
  std::optional<std::string> run(const std::function<void(tpc_context &)> &fn);

  /// Over which masks of axes ranks will communicate; without it, over any. Before the first run.
  void expectGroups(std::vector<uint32_t> masks) { expectedGroups = std::move(masks); }
  /// Null: any.
  const std::vector<uint32_t> *groupsExpected() const {
    return expectedGroups ? &*expectedGroups : nullptr;
  }

  /// Whether waiting threads may spin: not if there are more of them than cores.
  bool maySpin() const { return spin; }

  /// Of threads: seconds after which ranks that all wait for each other end the run; 0: never.
  double timeout() const { return seconds; }
  /// "in all_reduce of '/lm_head/MatMul' over 'tp'", "computing", or, outside of a run, "".
  std::string describeActivity(const Activity &activity) const;
  /// "rank 1 (tp 1) in all_reduce of '/lm_head/MatMul' over 'tp' for rank 0 (tp 0)": what a rank
  /// that waits says. `missing`: those for whom it waits.
  std::string describeWait(int rank, const Activity &activity,
                           const std::vector<int> &missing) const;
  /// The same of a wait that belongs to no step, "at the start, ", or, null, to nobody.
  std::string describeWait(int rank, const char *what, const std::vector<int> &missing) const;
  /// "has waited for 10 s (--timeout=10)"
  std::string describeTimeout() const;

  /// Of a rank of this process, for whoever watches: what its device waits for, be it for others
  /// or for work to be done; and another number whenever it has got further.
  std::optional<Transport::DeviceWait> deviceWait(const tpc_context &ctx) const;
  uint64_t deviceMoves(const tpc_context &ctx) const;
  /// The devices of this process wait for nobody any longer: ranks that have failed, or are about
  /// to end, do so. Returns before that is so where a device hangs.
  void abortDevices();

  /// Whether there are devices that somebody may wait for.
  bool watchesDevices() const { return deviceWatch != nullptr; }

  bool runs() const { return isRunning.load(); }
  /// Whether it is being destroyed.
  bool ends() const { return isEnding.load(); }
  bool failed() const { return hasFailed.load(std::memory_order_acquire); }
  /// The first message and its rank.
  std::string errorMessage() const;
  int errorRank() const;
  /// Keeps the first error; true for that one. `rt::fail` is what to call.
  bool recordError(int rank, const std::string &message);

private:
  World(Grid grid, int threadsPerRank, int firstRank, int numLocal);
  /// All ranks have transports.
  void watchDevices();
  void runRank(tpc_context &ctx, const std::function<void(tpc_context &)> &fn);
  /// What it throws says for which rank.
  void asRank(int rank, const std::function<void()> &fn) const;
  /// The rank talks by `host`, but for what links of its device do.
  void reach(tpc_context &ctx, std::unique_ptr<Transport> host) const;
  /// "rank 1: out of memory"
  std::string messageOf(int rank, const std::string &message) const;
  /// "all_reduce of '/lm_head/MatMul' over 'tp'"
  std::string describeCommunication(const Activity::Seen &seen) const;

  Grid theGrid;
  std::optional<std::vector<uint32_t>> expectedGroups;
  bool spin = false, hasRun = false;
  double seconds = 0;
  std::shared_ptr<Session> theSession;
  std::shared_ptr<LocalRanks> localRanks;
  std::atomic<bool> hasFailed{false}, isRunning{false}, isEnding{false};
  mutable std::mutex errorMutex;
  std::string firstError;
  int firstErrorRank = -1;
  std::unique_ptr<DeviceWatch> deviceWatch; ///< null: nothing needs it; uses what is above
  std::vector<std::unique_ptr<tpc_context>> contexts;
  RankThreads threadsOfRanks;
  std::mutex abortMutex; // of the next
  std::thread aborting;
  std::atomic<bool> hasAborted{false};
};

/// For `std::set_terminate`, in programs. An error could not be unwound through some frame: there
/// is nothing left to do but to say what happened, with status 1. `World::run` leaves the handler
/// of the process as it is.
[[noreturn]] void endTerminated();
/// The same, of this world.
[[noreturn]] void endTerminated(const World &world);

/// `ranks` threads on one axis, for tests and small programs: the first error, or nothing.
inline std::optional<std::string> runWorld(int ranks,
                                           const std::function<void(tpc_context &)> &fn) {
  return World::threads(Grid({{"tp", ranks}}), 1)->run(fn);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_WORLD_H
