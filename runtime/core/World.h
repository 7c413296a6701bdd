//===- World.h - All ranks of a run ---------------------------------------===//
//
// A world is either all ranks as threads of this process, or this process as one rank among others
// that a launcher started (by MPI or TCP). Use:
//
//   Launcher launcher = detectLauncher();
//   std::shared_ptr<Session> session;
//   if (launcher.present() && !(session = joinLauncher(launcher, error)))
//     ... print `error` and exit
//   ... compareRanks(session, traits): checks that all ranks run the same
//   ... compare session->size() with the size of the grid
//   ... session->agree() on errors that all ranks may detect
//   auto world = session ? World::processes(grid, threads, session)
//                        : World::threads(grid, threads);
//   std::optional<std::string> error = world->run([&](tpc_context &ctx) { ... });
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_WORLD_H
#define TPC_RT_CORE_WORLD_H

#include "core/Context.h"
#include "core/LaunchMonitor.h"
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

class DeviceMonitor;
class World;

/// Connection to the other processes, made before the grid is compared with the world's size. The
/// destructor closes it collectively.
class Session {
public:
  virtual ~Session();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranksOnHost() const = 0;
  /// Number of cores that the ranks of this host may use together, whether or not each rank may use
  /// all of them.
  virtual int coresOnHost() const = 0;
  virtual std::unique_ptr<Transport> makeTransport(World &world) = 0;
  /// Collective. Returns whether any rank has an error, and whether this rank reports it. For
  /// errors that every rank may detect at once, such as invalid input.
  struct Agreement {
    bool failed = false;
    bool isReporter = false; ///< the lowest rank with an error
  };
  virtual Agreement agree(bool hasError) = 0;
  /// Collective. Returns the lowest rank whose text differs from rank 0's, or -1.
  virtual int firstDifference(std::string_view text) = 0;
  /// Collective. Returns the text of each rank.
  virtual std::vector<std::string> textsOfAll(std::string_view text) = 0;
  /// Ends a run on this rank. Collective; returns when all ranks have called it.
  virtual void leave(tpc_context &ctx) = 0;
  /// "mpi", "tcp"
  virtual const char *transportName() const = 0;
  /// Sets the world that runs in this session, for messages that name ranks; null: none.
  virtual void observe(World *world) = 0;

  /// Current work outside of collectives, for hang messages: "while weights are loaded". A static
  /// string.
  std::atomic<const char *> doing = "at the start";

  /// Monitors the launcher during the session's lifetime.
  std::unique_ptr<LaunchMonitor> launch;
};

/// Property that must be equal on all ranks: its name ("grid"), and its value as text or as a
/// digest.
struct Trait {
  std::string what, value;
};

/// Compares traits over all processes, one after the other. Ranks must pass the same names, even if
/// their programs differ. The error names the lowest rank that differs from rank 0, and the first
/// differing trait. Only rank 0 returns the text; other ranks return an empty one, so that it is
/// printed once. Does nothing for threads.
std::optional<std::string> compareRanks(Session *session, const std::vector<Trait> &traits);

/// Joins the launcher's world. Null, with a message, on failure. `timeout`: seconds after which a
/// deadlock or a frozen rank ends the run; 0: never.
std::shared_ptr<Session> joinLauncher(const Launcher &launcher, std::string &error,
                                      double timeout = 0);
/// Loads libtpc_mpi.so and initializes MPI.
std::shared_ptr<Session> joinMpi(const Launcher &launcher, std::string &error, double timeout);
/// Connects to the other processes through the address of rank 0.
std::shared_ptr<Session> joinTcp(const Launcher &launcher, std::string &error, double timeout);

/// Shared state of ranks that are threads of this process.
class LocalRanks {
public:
  virtual ~LocalRanks();
  virtual std::unique_ptr<Transport> makeTransport(int rank) = 0;
  /// Starts a run of all ranks.
  virtual void enter() = 0;
  /// Records that `rank` has ended, and wakes ranks that wait for it, now or later.
  virtual void leave(int rank) = 0;
  /// Whether the rank waits for others, or has ended.
  virtual bool isWaiting(int rank) = 0;
};

/// Makes the shared state of ranks that communicate through memory.
std::shared_ptr<LocalRanks> joinThreads(World &world);

class World {
public:
  /// Makes all ranks of `grid` in this process. `timeout`: as for joinLauncher.
  static std::unique_ptr<World> threads(Grid grid, int threadsPerRank, double timeout = 0);
  /// Makes this process one rank. The session's size must be the grid's.
  static std::unique_ptr<World> processes(Grid grid, int threadsPerRank,
                                          std::shared_ptr<Session> session);
  /// Makes one rank without peers, for dry-run devices: communication returns at once. The caller
  /// calls ABI functions on `local(0)`.
  static std::unique_ptr<World> alone(Grid grid, int rank);
  ~World();

  const Grid &grid() const { return theGrid; }
  int size() const { return theGrid.numRanks(); }
  /// Number of ranks of this process.
  int numLocal() const { return static_cast<int>(contexts.size()); }
  tpc_context &local(int index) const { return *contexts[index]; }
  /// Context of a rank of this process.
  tpc_context &contextOf(int rank) const { return *contexts[rank - contexts[0]->rank]; }
  /// Null for threads.
  Session *session() { return theSession.get(); }
  /// Null for processes.
  LocalRanks *localThreads() { return localRanks.get(); }

  /// Runs `fn` on every rank of this process, each on its own thread, which is kept for the next
  /// run (rank 0, or the only one, runs on the caller's thread). Returns when all have ended, with
  /// the first error or nothing. Exceptions other than RankStopped that leave `fn` count as errors
  /// of that rank. May be called again after success.
  std::optional<std::string> run(const std::function<void(tpc_context &)> &fn);

  /// Sets the axis masks over which ranks will communicate; default: any. Before the first run.
  void expectGroups(std::vector<uint32_t> masks) { expectedGroups = std::move(masks); }
  /// Null: any.
  const std::vector<uint32_t> *groupsExpected() const {
    return expectedGroups ? &*expectedGroups : nullptr;
  }

  /// Whether waiting threads may spin: false if there are more threads than cores.
  bool maySpin() const { return spin; }

  /// For threads: seconds after which a deadlock ends the run; 0: never.
  double timeout() const { return seconds; }
  /// Returns "in all_reduce of '/lm_head/MatMul' over 'tp'", "computing", or, outside of a run, "".
  std::string describeOperation(const CurrentOperation &activity) const;
  /// "rank 1 (tp 1) in all_reduce of '/lm_head/MatMul' over 'tp' for rank 0 (tp 0)": description of
  /// a waiting rank. `awaited`: ranks that it waits for.
  std::string describeWait(int rank, const CurrentOperation &activity,
                           const std::vector<int> &awaited) const;
  /// The same for a wait outside of steps; `what`: "at the start, ", or null.
  std::string describeWait(int rank, const char *what, const std::vector<int> &awaited) const;
  /// "has waited for 10 s (--timeout=10)"
  std::string describeTimeout() const;

  /// For monitors: the wait of a rank's device (for other ranks or its own work), and a number that
  /// changes with its progress. The rank must be in this process.
  std::optional<Transport::DeviceWait> deviceWait(const tpc_context &ctx) const;
  uint64_t deviceMoves(const tpc_context &ctx) const;
  /// Aborts the communication of this process's devices, because ranks have failed or are about to
  /// end. May return before that is complete if a device hangs.
  void abortDevices();

  /// Whether there are devices to monitor.
  bool monitorsDevices() const { return deviceMonitor != nullptr; }

  bool runs() const { return isRunning.load(); }
  /// Whether the world is being destroyed.
  bool ends() const { return isEnding.load(); }
  bool failed() const { return hasFailed.load(std::memory_order_acquire); }
  /// First error message and its rank.
  std::string errorMessage() const;
  int errorRank() const;
  /// Stores the first error and returns true for it. Call `rt::fail` instead.
  bool recordError(int rank, const std::string &message);

private:
  World(Grid grid, int threadsPerRank, int firstRank, int numLocal);
  /// Starts monitoring of devices; all ranks have transports.
  void monitorDevices();
  void runRank(tpc_context &ctx, const std::function<void(tpc_context &)> &fn);
  /// Calls `fn`; exceptions that it throws name the rank.
  void asRank(int rank, const std::function<void()> &fn) const;
  /// Sets the rank's transport: `host`, or a transport over the device's collective backend and
  /// `host`.
  void setTransport(tpc_context &ctx, std::unique_ptr<Transport> host) const;
  /// "rank 1: out of memory"
  std::string messageOf(int rank, const std::string &message) const;
  /// "all_reduce of '/lm_head/MatMul' over 'tp'"
  std::string describeCommunication(const CurrentOperation::Snapshot &seen) const;

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
  std::unique_ptr<DeviceMonitor> deviceMonitor; ///< null if not needed; uses the members above
  std::vector<std::unique_ptr<tpc_context>> contexts;
  RankThreads threadsOfRanks;
  std::mutex abortMutex; // guards the members below
  std::thread aborting;
  std::atomic<bool> hasAborted{false};
};

/// Handler that programs pass to `std::set_terminate`. It is called if an error could not unwind a
/// frame; prints the message and exits with status 1. `World::run` leaves the process's handler
/// unchanged.
[[noreturn]] void endTerminated();
/// Prints the message of `world` and exits with status 1.
[[noreturn]] void endTerminated(const World &world);

/// Runs `ranks` threads on one axis, for tests and small programs. Returns the first error, or
/// nothing.
inline std::optional<std::string> runWorld(int ranks,
                                           const std::function<void(tpc_context &)> &fn) {
  return World::threads(Grid({{"tp", ranks}}), 1)->run(fn);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_WORLD_H
