//===- Scenario.cpp - Test program with injected failures -----------------===//
//
// tpc-rt-scenario WHAT [RANK [TIMEOUT]]: runs some collectives on two ranks, or on the launcher's
// ranks, and then injects the failure WHAT on rank RANK. For kill-first, stop-first and stop-last,
// RANK is the number of affected ranks. ProcessTest.cpp checks how the program ends.
//
//===----------------------------------------------------------------------===//

#include "core/Transport.h"
#include "core/World.h"
#include "tpc/async.h"
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace tpc::rt;

/// Defined in ScenarioFrame.c, without unwind tables.
extern "C" void scenario_call(void (*fn)(void *), void *argument);

namespace {

void allReduce(tpc_context &ctx, float *data, int64_t count) {
  tpc_all_reduce(&ctx, ctx.grid.allAxes(), TPC_F32, TPC_SUM, data, data, count);
}

void injectFailure(tpc_context &ctx, const std::string &what) {
  float data[8] = {};
  int next = (ctx.rank + 1) % ctx.worldSize();
  if (what == "fail")
    fail(ctx, "out of luck");
  if (what == "throw")
    throw std::runtime_error("cannot read the file");
  if (what == "no-unwind")
    scenario_call([](void *ctx) { fail(*static_cast<tpc_context *>(ctx), "out of luck"); }, &ctx);
  if (what == "exit")
    std::exit(3);
  if (what == "term") {
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(30)); // another rank ends this process
  }
  if (what == "kill")
    std::raise(SIGKILL);
  if (what == "stop")
    std::raise(SIGSTOP);
  if (what == "argument")
    tpc_send(&ctx, 0, 99, data, 1, next);
}

/// Rank `rank` delivers more than rank 0 can allocate.
void gatherTooMuch(tpc_context &ctx, int rank) {
  constexpr int64_t size = int64_t(1) << 29;
  // Untouched pages use no memory.
  void *data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ctx.transport->barrier(ctx);
  if (ctx.rank == 0) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + size / 8;
    setrlimit(RLIMIT_AS, &limit);
  }
  std::vector<std::vector<std::byte>> gathered;
  ctx.transport->gatherBytes(ctx, data, ctx.rank == rank ? size : 8, gathered);
}

} // namespace

/// Replaces the MPI function that the shim queries.
extern "C" int MPI_Query_thread(int *provided) {
  const char *level = std::getenv("SCENARIO_THREAD_LEVEL");
  *provided = level ? std::atoi(level) : 1;
  return 0;
}

int main(int argc, char **argv) {
  std::set_terminate(endTerminated);
  std::string what = argc > 1 ? argv[1] : "end";
  bool inFlight = what.starts_with("flight-");
  if (inFlight)
    what.erase(0, std::strlen("flight-"));
  int rank = argc > 2 ? std::atoi(argv[2]) : 0;
  double timeout = argc > 3 ? std::atof(argv[3]) : 0;
  auto printError = [](const std::string &error) {
    std::fprintf(stderr, "error: %s\n", error.c_str());
    return 1;
  };

  std::shared_ptr<Session> session;
  int ranks = 2;
  if (Launcher launcher = detectLauncher(); launcher.present()) {
    std::string error;
    if (what.starts_with("stop") || what.starts_with("kill"))
      std::fprintf(stderr, "pid %d\n", getpid());
    if (what == "stop-init" && launcher.rank == rank)
      std::raise(SIGSTOP);
    if (!(session = joinLauncher(launcher, error, timeout))) {
      if (error.empty()) // another rank reports the error
        std::this_thread::sleep_for(std::chrono::seconds(1));
      return error.empty() ? 1 : printError(error);
    }
    ranks = session->size();
    if (what == "stop-start" && session->rank() == rank)
      std::raise(SIGSTOP);
    // All or some ranks detect invalid input.
    if (what == "agree" || what == "agree-one")
      if (auto a = session->agree(what == "agree" || session->rank() == rank); a.failed)
        return a.isReporter ? printError("bad input") : 1;
  }
  bool stranger = what == "digest" && session && session->rank() == rank;
  if (auto error = compareRanks(session.get(),
                                {{"grid", "tp"}, {"schedule", stranger ? "another" : "the same"}}))
    return error->empty() ? 1 : printError(*error);
  Grid grid({{"tp", ranks}});
  auto world = session ? World::processes(grid, 1, session) : World::threads(grid, 1, timeout);
  if (session)
    session->doing = "while weights are loaded";
  auto error = world->run([&](tpc_context &ctx) {
    std::vector<float> data(30000, 1.0f);
    for (int i = 0; i < 3; ++i)
      allReduce(ctx, data.data(), data.size());
    if (what == "gather")
      gatherTooMuch(ctx, rank);
    if (what == "cross") { // all ranks send before they receive, which transports need not support
      std::vector<float> activations(512 * 768);
      tpc_send(&ctx, 0, TPC_F32, activations.data(), activations.size(), (ctx.rank + 1) % ranks);
      tpc_recv(&ctx, 0, TPC_F32, activations.data(), activations.size(),
               (ctx.rank + ranks - 1) % ranks);
    }
    if (what == "deadlock") // all ranks receive, and none sends
      tpc_recv(&ctx, 0, TPC_F32, data.data(), 1, (ctx.rank + 1) % ranks);
    // Operations are in flight while the failure is injected.
    std::vector<float> flying[2] = {data, data};
    int32_t tokens[2] = {};
    if (inFlight)
      for (int i : {0, 1})
        tokens[i] = tpc_all_reduce_start(&ctx, ctx.grid.allAxes(), TPC_F32, TPC_SUM,
                                         flying[i].data(), flying[i].data(), flying[i].size());
    if (ctx.rank == rank) {
      if (what == "leave")
        return;
      injectFailure(ctx, what);
    }
    if (bool first = what.ends_with("-first"); first || what.ends_with("-last")) {
      ctx.transport->barrier(ctx);
      if (first ? ctx.rank < rank : ctx.rank >= ranks - rank)
        std::raise(what.starts_with("kill") ? SIGKILL : SIGSTOP);
    }
    for (int32_t token : tokens)
      tpc_wait(&ctx, token);
    for (int i = 0; i < 3; ++i)
      allReduce(ctx, data.data(), data.size());
    if (what == "stop-end" && ctx.rank == rank)
      std::raise(SIGSTOP);
    if (what == "slow" && ctx.rank == rank)
      std::this_thread::sleep_for(std::chrono::milliseconds(5500));
    if (what == "late") {
      // By now the other ranks have delivered their data and ended.
      if (ctx.rank == rank)
        std::this_thread::sleep_for(std::chrono::seconds(3));
      std::vector<std::vector<std::byte>> gathered;
      ctx.transport->gatherBytes(ctx, data.data(), 1000, gathered);
    }
    if (ctx.rank == 0)
      std::printf("%s: %d ranks, %g\n", ctx.transport->name(), ranks, data[0]);
  });
  return error ? printError(*error) : 0;
}
