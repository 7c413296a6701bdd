//===- tpc-probe.cpp - Measurement of this machine ------------------------===//
//
//   tpc-probe [--name NAME] [--ranks N] [--quick] -o here.json
//
// Writes a machine file (lib/Cost/MachineFile.cpp) for `tpcc --machine`. Measures the kernels of
// the runtime on this machine's CPU: matmuls by shape, attention, memory, and collectives between
// ranks that are threads. Times of one thread are measured while all cores do the same, so that
// they include the effect of shared memory bandwidth.
//
//===----------------------------------------------------------------------===//

#include "core/Cores.h"
#include "core/World.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"
#include "tpc/standard_output.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/sysinfo.h>

using namespace tpc::rt;

namespace {

struct ProbeOptions {
  std::string output, name = "here";
  int ranks = 8;
  bool quick = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the seconds of CPU time of this thread.
double threadTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Returns the minimum seconds of `work` over many short measurements (for `total` seconds),
/// because other load on the machine affects the minimum least. With one thread, CPU time is
/// measured.
double secondsOf(const std::function<void()> &work, int threads, double total) {
  auto now = threads == 1 ? threadTime : ::now;
  constexpr double minSeconds = 0.002; // of a measurement
  work();
  double begin = now();
  work();
  int inner = std::clamp(int(minSeconds / std::max(1e-7, now() - begin)), 1, 20000);
  double best = 1e9, end = ::now() + total;
  for (int i = 0; i < 4 || ::now() < end; ++i) {
    begin = now();
    for (int j = 0; j < inner; ++j)
      work();
    best = std::min(best, (now() - begin) / inner);
  }
  return best;
}

/// Runs the function that `makeWork` returns on `ranks` ranks at the same time. Returns the seconds
/// of a call on rank 0.
double secondsOnRanks(int ranks, int threads,
                      const std::function<std::function<void()>(tpc_context &)> &makeWork,
                      double total) {
  selectDevices(cpuDevices());
  auto world = World::threads(Grid({{"tp", ranks}}), threads);
  double seconds = 0;
  std::atomic<bool> done = false;
  auto error = world->run([&](tpc_context &ctx) {
    std::function<void()> work = makeWork(ctx);
    ctx.transport->barrier(ctx);
    if (ctx.rank == 0) {
      seconds = secondsOf(work, threads, total);
      done = true;
    } else {
      while (!done)
        work();
    }
  });
  if (error) {
    std::fprintf(stderr, "tpc-probe: error: %s\n", error->c_str());
    std::exit(1);
  }
  return seconds;
}

/// Each rank multiplies by one matrix after another: as many as fit into 64 MiB, from 1 to 64. So
/// large matrices are read from memory and small ones from caches, as in a step.
double secondsOfMatmul(int ranks, int threads, int64_t m, int64_t n, int64_t k, double total) {
  return secondsOnRanks(
      ranks, threads,
      [=](tpc_context &ctx) {
        constexpr int64_t totalBytes = 64 << 20;
        int64_t count = std::clamp<int64_t>(totalBytes / (4 * n * k), 1, 64);
        auto w = std::make_shared<std::vector<float>>(size_t(n * k), 0.25f);
        for (int64_t i = 0; i < count; ++i) {
          ctx.data.matrices.push_back(ctx.device->makeMatrix(k, n));
          ctx.device->setRows(*ctx.data.matrices.back(), 0, k, w->data());
        }
        auto x = std::make_shared<std::vector<float>>(size_t(m * k), 0.5f);
        auto out = std::make_shared<std::vector<float>>(size_t(m * n));
        auto next = std::make_shared<int32_t>(0);
        return [=, &ctx] {
          tpc_product product = {
              n, n, nullptr, nullptr, out->data(), *next, TPC_EPILOGUE_NONE, TPC_F32, TPC_F32};
          *next = int32_t((*next + 1) % count);
          tpc_products(&ctx, x->data(), m, k, &product, 1);
        };
      },
      total);
}

double secondsOfAttention(int ranks, int threads, int64_t queries, int64_t keys, int64_t heads,
                          int64_t size, double total) {
  return secondsOnRanks(
      ranks, threads,
      [=](tpc_context &ctx) {
        int64_t row = heads * size;
        auto q = std::make_shared<std::vector<float>>(size_t(queries * row), 0.5f);
        auto out = std::make_shared<std::vector<float>>(size_t(queries * row));
        auto kv = std::make_shared<std::vector<float>>(size_t(2 * keys * row), 0.25f);
        return [=, &ctx] {
          tpc_attention_args a = {};
          a.q = q->data();
          a.out = out->data();
          a.k = kv->data();
          a.v = kv->data() + keys * row;
          a.batch = 1;
          a.seq_q = queries;
          a.seq_k = keys;
          a.heads_q = a.heads_kv = heads;
          a.head_size = a.value_size = size;
          a.q_row_stride = a.out_row_stride = a.k_row_stride = a.v_row_stride = row;
          a.scale = 0.125f;
          a.causal = 1;
          a.causal_offset = keys - queries;
          tpc_attention(&ctx, &a);
        };
      },
      total);
}

/// Reads half of the bytes and writes the other half, as a kernel of one operand does.
double secondsOfKernel(int ranks, int threads, int64_t bytes, double total) {
  return secondsOnRanks(
      ranks, threads,
      [=](tpc_context &ctx) {
        int64_t floats = std::max<int64_t>(1, bytes / 8);
        auto from = std::make_shared<std::vector<float>>(size_t(floats), 0.5f);
        auto to = std::make_shared<std::vector<float>>(size_t(floats));
        return [=, &ctx] {
          forEachTask(ctx, threads, std::min<int64_t>(threads, 1 + floats / 8192),
                      [&](int64_t task, int) {
                        int64_t tasks = std::min<int64_t>(threads, 1 + floats / 8192);
                        int64_t end = floats * (task + 1) / tasks;
                        for (int64_t i = floats * task / tasks; i < end; ++i)
                          (*to)[size_t(i)] = (*from)[size_t(i)] * 1.5f + 0.5f;
                      });
        };
      },
      total);
}

enum class Kind { AllReduce, AllGather, ReduceScatter, AllToAll, Send };

double secondsOfCollective(Kind kind, int ranks, int64_t bytes, int rounds) {
  selectDevices(cpuDevices());
  auto world = World::threads(Grid({{"tp", ranks}}), std::max(1, usableCores() / ranks));
  double seconds = 0;
  auto error = world->run([&](tpc_context &ctx) {
    int64_t count = std::max<int64_t>(ranks, bytes / 4);
    std::vector<float> in(static_cast<size_t>(count)), out(static_cast<size_t>(count));
    double best = 1e9;
    int inner = bytes > (1 << 17) || rounds < 10 ? 2 : 20;
    for (int round = 0; round <= rounds; ++round) {
      ctx.transport->barrier(ctx);
      double begin = now();
      for (int i = 0; i < inner; ++i)
        if (kind == Kind::AllReduce) {
          tpc_all_reduce(&ctx, 1, TPC_F32, TPC_SUM, in.data(), out.data(), count);
        } else if (kind == Kind::AllGather) {
          tpc_all_gather(&ctx, 1, TPC_F32, in.data(), out.data(), 1, count, 1);
        } else if (kind == Kind::ReduceScatter) {
          tpc_reduce_scatter(&ctx, 1, TPC_F32, TPC_SUM, in.data(), out.data(), 1, count, 1);
        } else if (kind == Kind::AllToAll) {
          int64_t own = count / ranks * ranks;
          tpc_all_to_all(&ctx, 1, TPC_F32, in.data(), out.data(), 1, ranks, 1, own, 1, 1);
        } else if (ctx.rank == 0) {
          // A round trip is two messages.
          tpc_send(&ctx, 0, TPC_F32, in.data(), count, 1);
          tpc_recv(&ctx, 0, TPC_F32, out.data(), count, 1);
        } else {
          tpc_recv(&ctx, 0, TPC_F32, out.data(), count, 0);
          tpc_send(&ctx, 0, TPC_F32, in.data(), count, 0);
        }
      if (round > 0)
        best = std::min(best, (now() - begin) / inner);
    }
    if (ctx.rank == 0)
      seconds = best / (kind == Kind::Send ? 2 : 1);
  });
  if (error) {
    std::fprintf(stderr, "tpc-probe: error: %s\n", error->c_str());
    std::exit(1);
  }
  return seconds;
}

//===----------------------------------------------------------------------===//
// Machine file
//===----------------------------------------------------------------------===//

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

/// List of rows of numbers.
class Rows {
public:
  void add(std::initializer_list<double> numbers) {
    text += text.empty() ? "\n   [" : ",\n   [";
    const char *separator = "";
    for (double number : numbers) {
      text += separator + numberText(number);
      separator = ", ";
    }
    text += "]";
  }
  std::string str() const { return "[" + text + "]"; }

private:
  std::string text;
};

std::string modelOfProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

std::string probe(const ProbeOptions &options) {
  int cores = usableCores();
  double total = options.quick ? 0.002 : 0.2;
  std::vector<int> threadCounts = {1};
  if (cores > 1)
    threadCounts.push_back(cores);
  struct sysinfo info = {};
  sysinfo(&info);

  constexpr std::pair<int64_t, int64_t> shapes[] = {
      {64, 64},    {256, 64},   {64, 256},   {384, 768},  {768, 384},  {768, 768},
      {3072, 768}, {768, 3072}, {768, 1536}, {1536, 768}, {50257, 768}};
  constexpr int64_t rowCounts[] = {1, 4, 16, 64, 256, 512};
  std::string matmuls, attentions, moves, collectives;
  for (int threads : threadCounts) {
    int ranks = cores / threads;
    std::fprintf(stderr, "tpc-probe: matmuls of %d threads, %d at a time\n", threads, ranks);
    Rows times;
    double peak = 0, bandwidth = 0, floor = 1;
    for (auto [n, k] : shapes)
      for (int64_t m : rowCounts) {
        bool isQuick = n <= 256 && k <= 256 && (m == 1 || m == 64);
        if (n * k * m > int64_t(50257) * 768 * 64 || (options.quick && !isQuick))
          continue;
        double seconds = secondsOfMatmul(ranks, threads, m, n, k, total);
        times.add({double(m), double(n), double(k), seconds});
        peak = std::max(peak, 2.0 * double(m * n * k) / seconds);
        bandwidth = std::max(bandwidth, 4.0 * double(n * k + m * (n + k)) / seconds);
        floor = std::min(floor, seconds);
      }
    auto header = "{\"threads\": " + std::to_string(threads);
    const char *separator = threads == threadCounts[0] ? "\n  " : ",\n  ";
    matmuls += separator + header + ", \"type\": \"f32\", \"peak\": " + numberText(peak) +
               ", \"bandwidth\": " + numberText(bandwidth) + ", \"floor\": " + numberText(floor) +
               ", \"times\": " + times.str() + "}";

    std::fprintf(stderr, "tpc-probe: attention and kernels of %d threads\n", threads);
    Rows few, many;
    constexpr int64_t heads = 12, size = 64;
    for (int64_t keys : {16, 128, 1024, 4096})
      few.add({double(2 * keys * heads * size * 4),
               secondsOfAttention(ranks, threads, 1, keys, heads, size, total)});
    for (int64_t tokens : {8, 32, 128, 512})
      many.add({4.0 * double(tokens * tokens * heads * size),
                secondsOfAttention(ranks, threads, tokens, tokens, heads, size, total)});
    attentions += separator + header + ", \"type\": \"f32\", \"few\": " + few.str() +
                  ", \"many\": " + many.str() + "}";
    Rows moved;
    for (int64_t bytes : {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26})
      moved.add({double(bytes), secondsOfKernel(ranks, threads, bytes, total)});
    moves += separator + header + ", \"times\": " + moved.str() + "}";
  }

  constexpr std::pair<Kind, const char *> kinds[] = {{Kind::AllReduce, "all_reduce"},
                                                     {Kind::AllGather, "all_gather"},
                                                     {Kind::ReduceScatter, "reduce_scatter"},
                                                     {Kind::AllToAll, "all_to_all"},
                                                     {Kind::Send, "send"}};
  for (auto [kind, name] : kinds)
    for (int ranks = 2; ranks <= (kind == Kind::Send ? 2 : options.ranks); ranks *= 2) {
      std::fprintf(stderr, "tpc-probe: %s of %d ranks\n", name, ranks);
      Rows times;
      for (int64_t bytes : {1 << 8, 1 << 12, 1 << 15, 1 << 18, 1 << 21, 1 << 23})
        times.add({double(bytes), secondsOfCollective(kind, ranks, bytes, options.quick ? 3 : 60)});
      collectives += (collectives.empty() ? "\n  " : ",\n  ") + std::string("{\"kind\": \"") +
                     name + "\", \"ranks\": " + std::to_string(ranks) +
                     ", \"times\": " + times.str() + "}";
    }

  std::ostringstream file;
  file << "{\"name\": \"" << options.name
       << "\",\n \"target\": \"cpu\",\n \"source\": \"tpc-probe on " << modelOfProcessor() << ", "
       << kernels().name << " kernels, ranks as threads\",\n"
       << " \"cores\": " << cores
       << ",\n \"launch\": " << numberText(secondsOfKernel(cores, 1, 8, total)) << ",\n"
       << " \"memory\": {\"bytes\": "
       << static_cast<uint64_t>(info.totalram) * static_cast<uint64_t>(info.mem_unit)
       << ", \"reserved\": 0},\n \"matmul\": [" << matmuls << "],\n \"attention\": [" << attentions
       << "],\n \"kernel\": [" << moves << "],\n \"collective\": [" << collectives << "],\n"
       << " \"error\": {\"compute\": 0.1, \"memory\": 0.2, \"launch\": 0.5, \"tensor\": 0.3, "
          "\"pipeline\": 0.5}}\n";
  return file.str();
}

[[noreturn]] void refuse(const std::string &message) {
  std::fprintf(stderr, "tpc-probe: error: %s\n", message.c_str());
  std::exit(1);
}

ProbeOptions parse(int argc, char **argv) {
  ProbeOptions options;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc)
        refuse(flag + " needs a value");
      return argv[++i];
    };
    if (flag == "--help") {
      std::puts("tpc-probe: measures this machine's CPU for tpcc --machine\n\n"
                "  tpc-probe -o here.json\n\n"
                "  -o FILE      the machine file\n"
                "  --name NAME  name of the machine (here)\n"
                "  --ranks N    largest number of ranks of collectives, 2 to 64 (8)\n"
                "  --quick      fewer repetitions, for tests\n\n"
                "It takes about two minutes, on a machine without other load.");
      std::exit(tpc::finishStandardOutput("tpc-probe", 0));
    }
    if (flag == "-o")
      options.output = value();
    else if (flag == "--name")
      options.name = value();
    else if (flag == "--quick")
      options.quick = true;
    else if (flag == "--ranks")
      options.ranks = std::atoi(value().c_str());
    else
      refuse("there is no flag '" + flag + "'; see tpc-probe --help");
  }
  if (options.output.empty())
    refuse("name the machine file with -o, such as -o here.json");
  if (options.ranks < 2 || options.ranks > 64)
    refuse("--ranks must be from 2 to 64");
  if (options.name.empty() || options.name.find_first_of("\"\\\n") != std::string::npos)
    refuse("--name must be text without quotes");
  return options;
}

} // namespace

int main(int argc, char **argv) {
  ProbeOptions options = parse(argc, argv);
  std::ofstream file(options.output);
  if (!file)
    refuse("cannot write '" + options.output + "': " + std::strerror(errno));
  file << probe(options);
  file.close();
  if (!file)
    refuse("cannot write '" + options.output + "'");
}
