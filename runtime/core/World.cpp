//===- World.cpp - All ranks of a run -------------------------------------===//

#include "core/World.h"
#include "core/CollectiveBackend.h"
#include "core/Cores.h"
#include "core/DeviceMonitor.h"
#include "core/Diagnostic.h"
#include "core/NoTransport.h"
#include "core/OutOfMemory.h"
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace tpc::rt {

namespace {

// The running world, for endTerminated.
std::atomic<World *> running{nullptr};

} // namespace

[[noreturn]] static void endWith(const std::string &message) {
  printDiagnostic("error", message);
  _exit(1);
}

void endTerminated() {
  if (World *world = running.load(); world && world->failed())
    endTerminated(*world);
  endWith("internal error: terminated");
}

void endTerminated(const World &world) {
  // Empty if another rank has printed it.
  if (std::string message = world.errorMessage(); !message.empty())
    endWith(message);
  _exit(1);
}

Session::~Session() = default;

LocalRanks::~LocalRanks() = default;

void fail(tpc_context &ctx, const std::string &message) {
  if (ctx.world.recordError(ctx.rank, message))
    ctx.transport->abortWorld(ctx.rank, ctx.world.errorMessage());
  throw RankStopped();
}

World::World(Grid grid, int threadsPerRank, int firstRank, int numLocal)
    : theGrid(std::move(grid)) {
  for (int rank = firstRank; rank < firstRank + numLocal; ++rank)
    asRank(rank, [&] {
      contexts.push_back(std::make_unique<tpc_context>(*this, theGrid, rank, threadsPerRank));
    });
}

void World::asRank(int rank, const std::function<void()> &fn) const {
  try {
    fn();
  } catch (const std::bad_alloc &error) {
    throw std::runtime_error(messageOf(rank, textOf(error)));
  } catch (const std::exception &error) {
    throw std::runtime_error(messageOf(rank, error.what()));
  }
}

void World::setTransport(tpc_context &ctx, std::unique_ptr<Transport> host) const {
  asRank(ctx.rank, [&] {
    std::unique_ptr<CollectiveBackend> backend =
        size() > 1 ? ctx.device->makeCollectiveBackend() : nullptr;
    ctx.transport =
        backend ? makeDeviceTransport(ctx, std::move(host), std::move(backend)) : std::move(host);
  });
}

std::unique_ptr<World> World::threads(Grid grid, int threadsPerRank, double timeout) {
  int ranks = grid.numRanks();
  std::unique_ptr<World> world(new World(std::move(grid), threadsPerRank, 0, ranks));
  world->spin = int64_t(ranks) * threadsPerRank <= usableCores();
  world->seconds = timeout;
  world->localRanks = joinThreads(*world);
  for (auto &ctx : world->contexts)
    world->setTransport(*ctx, world->localRanks->makeTransport(ctx->rank));
  world->monitorDevices();
  return world;
}

std::unique_ptr<World> World::processes(Grid grid, int threadsPerRank,
                                        std::shared_ptr<Session> session) {
  std::unique_ptr<World> world(new World(std::move(grid), threadsPerRank, session->rank(), 1));
  // If any rank has fewer cores than threads, no rank may spin, however many cores the others have.
  world->spin = int64_t(session->ranksOnHost()) * threadsPerRank <= session->coresOnHost() &&
                threadsPerRank <= usableCores();
  world->theSession = std::move(session);
  world->setTransport(world->local(0), world->theSession->makeTransport(*world));
  world->monitorDevices();
  world->theSession->observe(world.get());
  return world;
}

std::unique_ptr<World> World::alone(Grid grid, int rank) {
  std::unique_ptr<World> world(new World(std::move(grid), 1, rank, 1));
  world->setTransport(world->local(0), std::make_unique<NoTransport>());
  return world;
}

void World::monitorDevices() {
  const tpc_context &ctx = local(0);
  if (!ctx.device->isHost() || ctx.transport->isOnDevice())
    deviceMonitor = std::make_unique<DeviceMonitor>(*this);
}

World::~World() {
  isEnding.store(true);
  // Runs on the ranks' threads, because it is collective. Does not wait for work of a failed run.
  if (hasRun && local(0).transport->isOnDevice())
    threadsOfRanks.run(numLocal(), [&](int index) {
      try {
        local(index).transport->disconnect(local(index));
      } catch (const std::exception &) {
        // No rank can receive the error any more, and no result depends on it.
      }
    });
  if (theSession)
    theSession->observe(nullptr);
  if (deviceMonitor)
    deviceMonitor->leave();
  if (aborting.joinable())
    aborting.join();
}

void World::runRank(tpc_context &ctx, const std::function<void(tpc_context &)> &fn) {
  auto record = [&](const std::string &message) {
    if (recordError(ctx.rank, message))
      ctx.transport->abortWorld(ctx.rank, errorMessage());
  };
  try {
    ctx.transport->connect(ctx);
    fn(ctx);
    if (localRanks && !failed())
      localRanks->leave(ctx.rank);
    if (theSession)
      theSession->leave(ctx);
  } catch (const RankStopped &) {
    ctx.arena.clear();
    ctx.staging().clear();
  } catch (const std::bad_alloc &error) {
    record(textOf(error));
  } catch (const std::exception &e) {
    record(e.what());
  } catch (...) {
    record("internal error: unknown exception");
  }
}

std::optional<std::string> World::run(const std::function<void(tpc_context &)> &fn) {
  if (failed())
    return errorMessage();
  if (localRanks)
    localRanks->enter();
  World *outer = running.exchange(this);
  isRunning.store(true);
  hasRun = true;
  try {
    threadsOfRanks.run(numLocal(), [&](int index) { runRank(local(index), fn); });
  } catch (const std::system_error &e) {
    recordError(local(0).rank, "cannot start a thread for each of " + std::to_string(numLocal()) +
                                   " ranks: " + e.what());
  }
  isRunning.store(false);
  running.store(outer);
  if (failed())
    return errorMessage();
  return std::nullopt;
}

std::string World::describeCommunication(const CurrentOperation::Snapshot &seen) const {
  std::string text = seen.last;
  if (!seen.axes) // start-up or outputs, without a node
    return text;
  if (seen.node)
    text += " of '" + std::string(seen.node) + "'";
  return text + " over '" + theGrid.label(seen.axes) + "'";
}

std::string World::describeOperation(const CurrentOperation &activity) const {
  CurrentOperation::Snapshot seen = activity.read();
  if (seen.what)
    return "in " + describeCommunication(seen);
  if (!isRunning.load())
    return "";
  return seen.last ? "computing, after " + describeCommunication(seen) : "computing";
}

std::optional<Transport::DeviceWait> World::deviceWait(const tpc_context &ctx) const {
  if (std::optional<Transport::DeviceWait> wait = ctx.transport->deviceWait())
    return wait;
  std::optional<std::string> pending = ctx.device->pending();
  if (!pending)
    return std::nullopt;
  CurrentOperation::Snapshot seen = ctx.activity.read();
  if (!seen.what || !seen.axes)
    return Transport::DeviceWait{pending->empty() ? "waiting for its device"
                                                  : "computing on its device, in " + *pending,
                                 {}};
  // The rank is in a library call before its communication.
  Transport::DeviceWait wait{"in " + describeCommunication(seen), {}};
  for (int member : theGrid.groupOf(ctx.rank, seen.axes).ranks)
    if (member != ctx.rank)
      wait.awaited.push_back(member);
  return wait;
}

uint64_t World::deviceMoves(const tpc_context &ctx) const {
  return ctx.transport->deviceMoves() + ctx.device->workVersion();
}

void World::abortDevices() {
  if (!monitorsDevices())
    return;
  {
    std::lock_guard<std::mutex> lock(abortMutex);
    if (!aborting.joinable())
      aborting = std::thread([this] {
        for (auto &ctx : contexts)
          ctx->transport->abortDevice();
        hasAborted.store(true);
      });
  }
  // A library may wait for a hung device. The end of a run does not wait for it.
  for (int i = 0; i < 100 && !hasAborted.load(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::string World::describeWait(int rank, const CurrentOperation &activity,
                                const std::vector<int> &awaited) const {
  CurrentOperation::Snapshot seen = activity.read();
  return describeWait(
      rank, seen.what ? describeCommunication(seen).c_str() : "a barrier of all ranks", awaited);
}

std::string World::describeWait(int rank, const char *what, const std::vector<int> &awaited) const {
  std::string text = theGrid.describe(rank);
  if (!what)
    return text + " waits for no other rank";
  text += std::string(" in ") + what;
  for (size_t i = 0; i < awaited.size(); ++i)
    text += (i ? ", " : " for ") + theGrid.describe(awaited[i]);
  return text;
}

std::string World::describeTimeout() const {
  char text[64];
  std::snprintf(text, sizeof(text), "has waited for %g s (--timeout=%g)", seconds, seconds);
  return text;
}

std::optional<std::string> compareRanks(Session *session, const std::vector<Trait> &traits) {
  if (!session)
    return std::nullopt;
  std::string together;
  for (const Trait &trait : traits)
    together += trait.value + "\n";
  if (session->firstDifference(together) < 0)
    return std::nullopt;
  for (const Trait &trait : traits) {
    int rank = session->firstDifference(trait.value);
    if (rank < 0)
      continue;
    std::vector<std::string> values = session->textsOfAll(trait.value);
    if (session->rank() != 0)
      return "";
    return "rank " + std::to_string(rank) + " does not run the same as rank 0: another " +
           trait.what + " (rank 0 has " + values[0] + ", rank " + std::to_string(rank) + " has " +
           values[rank] +
           "); start the same executable with the same arguments and weights everywhere";
  }
  return std::nullopt;
}

std::string World::errorMessage() const {
  std::lock_guard<std::mutex> lock(errorMutex);
  return firstError;
}

int World::errorRank() const {
  std::lock_guard<std::mutex> lock(errorMutex);
  return firstErrorRank;
}

std::string World::messageOf(int rank, const std::string &message) const {
  return size() > 1 && !message.empty() ? "rank " + std::to_string(rank) + ": " + message : message;
}

bool World::recordError(int rank, const std::string &message) {
  std::lock_guard<std::mutex> lock(errorMutex);
  if (firstErrorRank >= 0)
    return false;
  firstErrorRank = rank;
  firstError = messageOf(rank, message);
  hasFailed.store(true, std::memory_order_release);
  return true;
}

} // namespace tpc::rt
