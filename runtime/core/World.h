//===- World.h - all ranks of a run ---------------------------------------===//
//
// A world is either all ranks as threads of this process, or this process as one rank among others
// that a launcher started (MPI). Use:
//
//   Launcher launcher = detectLauncher();
//   std::unique_ptr<World> world = launcher.present ? joinWorld(...) : World::threads(grid,
//   threadsPerRank); if (std::string error = world->handshake(digest); !error.empty()) ...
//   std::optional<std::string> error = world->run([&](tpc_context &ctx) { ... });
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_WORLD_H
#define TPC_RT_CORE_WORLD_H

#include "core/Context.h"
#include "core/Transport.h"
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt {

/// What the environment says about who started this process.
struct Launcher {
  bool present = false; ///< a launcher of MPI programs started this process
  std::string variable; ///< the variable that gives it away
  int rank = -1;        ///< -1: not said
  int size = -1;
  int localSize = -1; ///< ranks on this host
};

/// Looks at the variables of Open MPI, PMI and PMIx. TPC_TRANSPORT=threads makes it blind.
Launcher detectLauncher();

/// A connection to the other processes; made before the grid is compared with the world's size.
class Session {
public:
  virtual ~Session();
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::unique_ptr<Transport> makeTransport(World &world) = 0;
  /// Collective. Ends the program with `status` if any rank has an error; the lowest such rank
  /// prints its own. For errors that every rank may find at once (bad input), so that they are said
  /// once.
  virtual void agree(const std::optional<std::string> &error) = 0;
  /// Collective. The lowest rank whose text differs from rank 0's, or -1.
  virtual int firstDifference(std::string_view text) = 0;
  /// Collective; the other processes are not reached after it.
  virtual void finish() = 0;
};

/// Loads libtpc_mpi.so and initializes MPI. Null, with a message, if that cannot be done.
std::unique_ptr<Session> joinMpi(const Launcher &launcher, std::string &error);

class World {
public:
  /// All ranks of `grid` in this process.
  static std::unique_ptr<World> threads(Grid grid, int threadsPerRank);
  /// This process is one rank. The session's size must be the grid's.
  static std::unique_ptr<World> processes(Grid grid, int threadsPerRank,
                                          std::unique_ptr<Session> session);
  ~World();

  const Grid &grid() const { return theGrid; }
  int size() const { return theGrid.numRanks(); }
  /// Ranks of this process.
  int numLocal() const { return static_cast<int>(contexts.size()); }
  tpc_context &local(int index) { return *contexts[index]; }
  /// Null for threads.
  Session *session() { return theSession.get(); }

  /// Runs `fn` on every rank of this process, each on a thread of its own (rank 0, or the only one,
  /// on the caller's), and returns when all have ended: the first error, or nothing. Exceptions
  /// other than RankStopped that leave `fn` count as errors of that rank. May be called again after
  /// success.
  std::optional<std::string> run(const std::function<void(tpc_context &)> &fn);

  /// Compares `digest` over all processes. The error names the rank that differs.
  std::optional<std::string> handshake(std::string_view digest);

  /// Whether waiting threads may spin: not if there are more of them than cores.
  bool maySpin() const { return spin; }

  bool failed() const { return hasFailed.load(std::memory_order_acquire); }
  /// The first message and its rank.
  std::string errorMessage() const;
  int errorRank() const;
  /// Keeps the first error; true for that one. Use rt::fail.
  bool recordError(int rank, const std::string &message);

private:
  World(Grid grid, int threadsPerRank, int numLocal);
  void runRank(tpc_context &ctx, const std::function<void(tpc_context &)> &fn);

  Grid theGrid;
  bool spin = false;
  std::unique_ptr<Session> theSession;
  std::vector<std::unique_ptr<tpc_context>> contexts;
  std::atomic<bool> hasFailed{false};
  mutable std::mutex errorMutex;
  std::string firstError;
  int firstErrorRank = -1;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WORLD_H
