//===- Bench.cpp - Communication benchmark --------------------------------===//
//
// tpc-rt-bench [--ranks N] [--repeat N] prints, as JSON, medians over repeats of:
//   all_reduce of some sizes over all ranks, with the CPU time summed over all ranks;
//   a pipeline: each rank computes for two milliseconds and sends to the next, so that at any time
//   all ranks but one wait. "waiting_cpu" is the CPU time of the waiting ranks relative to that of
//   the computing rank: 0 if they sleep, cores - 1 if they use all cores.
// Under a launcher, the number of ranks and the transport are the launcher's.
//
//===----------------------------------------------------------------------===//

#include "core/World.h"
#include "tpc/standard_output.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace tpc::rt;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpuTime(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Keeps a core busy with a fixed amount of work. `work` is calibrated so that it takes about two
/// milliseconds on an idle machine.
double burn(long work) {
  double x = 1;
  for (long i = 0; i < work; ++i)
    x = x * 1.0000001 + 1e-9;
  return x;
}

volatile double sink;

/// Sums `mine` over processes. Ranks that are threads share one process, so only rank 0's number
/// counts.
double sumOverProcesses(tpc_context &ctx, double mine) {
  if (ctx.transport->sharesMemory() && ctx.rank > 0)
    mine = 0;
  tpc_all_reduce(&ctx, 1, TPC_F64, TPC_SUM, &mine, &mine, 1);
  return mine;
}

} // namespace

int main(int argc, char **argv) {
  int ranks = 2, repeats = 51;
  for (int i = 1; i < argc; i += 2) {
    bool isRanks = !std::strcmp(argv[i], "--ranks"), isRepeat = !std::strcmp(argv[i], "--repeat");
    if ((!isRanks && !isRepeat) || i + 1 == argc) {
      bool isHelp = !std::strcmp(argv[i], "--help");
      std::fputs("usage: tpc-rt-bench [--ranks N] [--repeat N]\nMeasures collectives, as JSON.\n",
                 isHelp ? stdout : stderr);
      return tpc::finishStandardOutput("tpc-rt-bench", !isHelp);
    }
    (isRanks ? ranks : repeats) = std::max(1, std::atoi(argv[i + 1]));
  }
  std::shared_ptr<Session> session;
  if (Launcher launcher = detectLauncher(); launcher.present()) {
    std::string error;
    if (!(session = joinLauncher(launcher, error))) {
      std::fprintf(stderr, "error: %s\n", error.c_str());
      return 1;
    }
    ranks = session->size();
  }

  Grid grid({{"pp", ranks}});
  auto world = session ? World::processes(grid, 1, session) : World::threads(grid, 1);
  auto error = world->run([&](tpc_context &ctx) {
    if (ctx.rank == 0)
      std::printf("{\"transport\": \"%s\", \"ranks\": %d, \"may_spin\": %s, \"all_reduce\": [",
                  ctx.transport->name(), ranks, world->maySpin() ? "true" : "false");
    for (int64_t count : {1, 768, 8 * 768, 128 * 768, 512 * 768}) {
      std::vector<float> data(count, 1.0f), out(count);
      std::vector<double> times;
      int inner = count > 10000 ? 2 : 10;
      double before = cpuTime(CLOCK_PROCESS_CPUTIME_ID);
      for (int i = 0; i < repeats; ++i) {
        ctx.transport->barrier(ctx);
        double begin = now();
        for (int j = 0; j < inner; ++j)
          tpc_all_reduce(&ctx, 1, TPC_F32, TPC_SUM, data.data(), out.data(), count);
        times.push_back((now() - begin) / inner);
      }
      double used = sumOverProcesses(ctx, cpuTime(CLOCK_PROCESS_CPUTIME_ID) - before);
      if (ctx.rank == 0)
        std::printf("%s{\"bytes\": %ld, \"microseconds\": %.1f, \"cpu_microseconds\": %.1f}",
                    count > 1 ? ", " : "", long(count * 4), median(times) * 1e6,
                    used * 1e6 / (repeats * inner));
    }

    // Rank 0 measures how much work takes two milliseconds.
    int64_t work = 1000000;
    if (ctx.rank == 0) {
      double begin = cpuTime(CLOCK_THREAD_CPUTIME_ID);
      sink = burn(work);
      double took = cpuTime(CLOCK_THREAD_CPUTIME_ID) - begin;
      work = static_cast<int64_t>(static_cast<double>(work) * 2e-3 / took);
    }
    tpc_broadcast(&ctx, 1, TPC_I64, &work, 1, 0);
    std::vector<float> message(128 * 768);
    std::vector<double> times;
    double computing = 0, before = cpuTime(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < std::min(repeats, 11); ++i) {
      double begin = now();
      if (ctx.rank > 0)
        tpc_recv(&ctx, 0, TPC_F32, message.data(), message.size(), ctx.rank - 1);
      double mine = cpuTime(CLOCK_THREAD_CPUTIME_ID);
      sink = burn(work);
      computing += cpuTime(CLOCK_THREAD_CPUTIME_ID) - mine;
      if (ctx.rank + 1 < ranks)
        tpc_send(&ctx, 0, TPC_F32, message.data(), message.size(), ctx.rank + 1);
      ctx.transport->barrier(ctx);
      times.push_back(now() - begin);
    }
    double used = sumOverProcesses(ctx, cpuTime(CLOCK_PROCESS_CPUTIME_ID) - before);
    tpc_all_reduce(&ctx, 1, TPC_F64, TPC_SUM, &computing, &computing, 1);
    if (ctx.rank == 0)
      std::printf("], \"line_milliseconds\": %.2f, \"waiting_cpu\": %.2f}\n", median(times) * 1e3,
                  used / computing - 1);
  });
  if (error) {
    std::fprintf(stderr, "error: %s\n", error->c_str());
    return 1;
  }
  return tpc::finishStandardOutput("tpc-rt-bench", 0);
}
