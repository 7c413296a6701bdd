//===- MpiSession.cpp - finding and loading the MPI shim ------------------===//

#include "core/Cores.h"
#include "core/Patience.h"
#include "core/World.h"
#include "tpc/fnv1a.h"
#include "transport/mpi/MpiTransport.h"
#include <algorithm>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace tpc::rt {

namespace {

constexpr const char *libraryName = "libtpc_mpi.so";

/// The shim of a session that was begun and not finished. An exit would then leave the others
/// waiting. Its destructor runs at exit; `atexit` itself is not in libc.so.6, only in a static
/// companion that compiled programs are linked without.
struct Unfinished {
  const tpc_mpi_shim *shim = nullptr;
  ~Unfinished() {
    if (shim)
      shim->abort(1);
  }
} unfinished;

std::string executableFolder() {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0)
    return "";
  std::string text(path, static_cast<size_t>(length));
  return text.substr(0, text.find_last_of('/'));
}

/// Candidates in the order in which they are tried; the last leaves it to the dynamic linker,
/// which looks where the compiler found the runtime (the executable's run path) and in its own
/// places.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  auto add = [&](const std::string &folder) {
    if (!folder.empty())
      paths.push_back(folder + "/" + libraryName);
  };
  if (const char *folder = std::getenv("TPC_RUNTIME_DIR"))
    add(folder);
  if (std::string folder = executableFolder(); !folder.empty()) {
    add(folder);
    add(folder + "/../lib");
  }
  paths.push_back(libraryName);
  return paths;
}

/// Ends the process if what MPI does by itself takes too long: the launcher then ends the others.
class Alarm {
public:
  Alarm(double seconds, const std::string &who, const char *what) {
    if (seconds > 0)
      watch = std::thread([=, this] {
        // In steps, so that time in which all of it was stopped does not count.
        std::unique_lock<std::mutex> lock(mutex);
        for (Patience patience(seconds); !patience.isOver();)
          if (changed.wait_for(lock, std::chrono::milliseconds(500), [&] { return over; }))
            return;
        std::fprintf(stderr, "error: %s: has waited for %g s (--timeout=%g) %s\n", who.c_str(),
                     seconds, seconds, what);
        std::fflush(stderr);
        _exit(1);
      });
  }
  ~Alarm() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      over = true;
    }
    changed.notify_all();
    if (watch.joinable())
      watch.join();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::thread watch;
};

class MpiSession final : public Session {
public:
  MpiSession(const tpc_mpi_shim &shim, int rank, int size, int onHost, int cores, double seconds)
      : shim(shim), myRank(rank), worldSize(size), onHost(onHost), cores(cores), seconds(seconds) {
    unfinished.shim = &shim;
  }

  ~MpiSession() override {
    unfinished.shim = nullptr;
    Alarm alarm(seconds, "rank " + std::to_string(myRank), "for all ranks to end");
    shim.finalize();
  }

  int rank() const override { return myRank; }
  int size() const override { return worldSize; }
  int ranksOnHost() const override { return onHost; }
  int coresOnHost() const override { return std::min(cores, quotaCores()); }
  std::unique_ptr<Transport> makeTransport(World &world) override {
    return std::make_unique<MpiTransport>(shim, world);
  }

  Agreement agree(bool hasError) override {
    std::vector<uint64_t> all = allOf(hasError);
    Agreement agreement;
    for (int peer = 0; peer < worldSize && !agreement.failed; ++peer)
      if (all[peer]) {
        agreement.failed = true;
        agreement.isSpeaker = peer == myRank;
      }
    return agreement;
  }

  int firstDifference(std::string_view text) override {
    std::vector<uint64_t> all = allOf(fnv1a(text));
    for (int peer = 1; peer < worldSize; ++peer)
      if (all[peer] != all[0])
        return peer;
    return -1;
  }

  void leave(tpc_context &ctx) override {
    int32_t status = shim.leave(seconds);
    if (status == -2)
      fail(ctx, "out of memory at the end of the run");
    check(status, &ctx);
  }

  double timeout() const override { return seconds; }

private:
  /// One number of every rank.
  std::vector<uint64_t> allOf(uint64_t mine) {
    std::vector<uint64_t> all(worldSize, mine);
    std::vector<tpc_mpi_message> sends, receives;
    constexpr int32_t tag = 0x4002;
    for (int peer = 0; peer < worldSize; ++peer)
      if (peer != myRank) {
        sends.push_back({&mine, sizeof(mine), peer, tag});
        receives.push_back({&all[peer], sizeof(mine), peer, tag});
      }
    check(shim.exchange(sends.data(), static_cast<int32_t>(sends.size()), receives.data(),
                        static_cast<int32_t>(receives.size()), 0, seconds),
          nullptr);
    return all;
  }

  /// Ends all processes if one has waited for too long. `ctx` knows the ranks' coordinates; null
  /// outside of a run.
  void check(int32_t status, tpc_context *ctx) {
    if (status != -3 && status != -4)
      return;
    std::string text = ctx ? ctx->grid.describe(myRank) : "rank " + std::to_string(myRank);
    text += " " + doing + ", for";
    for (int peer : getMissing(shim, worldSize))
      text += (text.ends_with("for") ? " " : ", ") +
              (ctx ? ctx->grid.describe(peer) : "rank " + std::to_string(peer));
    if (status == -4)
      sayAndWaitForTheEnd("waits: " + text);
    std::fprintf(stderr, "error: rank %d: has waited for %g s (--timeout=%g): %s\n", myRank,
                 seconds, seconds, text.c_str());
    shim.abort(1);
  }

  const tpc_mpi_shim &shim;
  int myRank, worldSize, onHost, cores;
  double seconds;
};

} // namespace

std::shared_ptr<Session> joinMpi(const Launcher &launcher, std::string &error, double timeout) {
  std::string why =
      "this process was started by an MPI launcher (" + launcher.variable + " is set), but ";
  std::string advice = "; set TPC_TRANSPORT=threads to run all ranks in this process";

  void *library = nullptr;
  std::string tried;
  for (const std::string &path : candidates()) {
    // MPI's plugins look up symbols of the library that loaded them, hence global.
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library)
      break;
    const char *reason = dlerror();
    bool exists = path.find('/') != std::string::npos && access(path.c_str(), F_OK) == 0;
    if (exists) {
      error = why + path + " cannot be loaded: " + (reason ? reason : "unknown reason") +
              " (is MPI installed?)" + advice;
      return nullptr;
    }
    if (path.find('/') != std::string::npos)
      tried += (tried.empty() ? "" : ", ") + path.substr(0, path.find_last_of('/'));
  }
  if (!library) {
    error = why + libraryName + " was not found (looked in " + tried +
            " and the dynamic linker's path); set TPC_RUNTIME_DIR to its folder, or" +
            advice.substr(1);
    return nullptr;
  }
  auto get = reinterpret_cast<tpc_mpi_shim_fn>(dlsym(library, TPC_MPI_SHIM_SYMBOL));
  const tpc_mpi_shim *shim = get ? get() : nullptr;
  if (!shim || shim->version != TPC_MPI_SHIM_VERSION) {
    error = why + libraryName + " is of another version of the runtime" + advice;
    return nullptr;
  }
  int32_t rank = 0, size = 1, onHost = 1, cores = 1;
  char text[256] = "";
  int32_t status = 0;
  {
    Alarm alarm(timeout, launcher.rank < 0 ? "a rank" : "rank " + std::to_string(launcher.rank),
                "for all ranks to start");
    status = shim->init(&rank, &size, &onHost, &cores, text, sizeof(text));
  }
  if (status) {
    error = why + text;
    return nullptr;
  }
  auto session = std::make_shared<MpiSession>(*shim, rank, size, onHost, cores, timeout);
  if (launcher.size > 0 && launcher.size != size) {
    // Another MPI's launcher: each process would be a world of its own.
    error = why + "MPI sees " + std::to_string(size) + " ranks where the launcher started " +
            std::to_string(launcher.size) +
            ": the launcher belongs to another MPI than the one that libtpc_mpi.so was built for";
    return nullptr;
  }
  return session;
}

} // namespace tpc::rt
