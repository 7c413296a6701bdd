//===- MpiSession.cpp - Loading of the MPI shim, and its session ----------===//

#include "core/Cores.h"
#include "core/Diagnostic.h"
#include "core/MessageClaim.h"
#include "core/RuntimeLibrary.h"
#include "core/Timeout.h"
#include "core/World.h"
#include "tpc/fnv1a.h"
#include "transport/messages/MessageTransport.h"
#include "transport/messages/ProcessSession.h"
#include "transport/mpi/MpiShim.h"
#include "transport/sockets/Rendezvous.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <sys/random.h>
#include <thread>
#include <unistd.h>

namespace tpc::rt {

namespace {

constexpr const char *libraryName = "libtpc_mpi.so";

/// Shim of an unfinished session. At exit its destructor aborts the session; otherwise the other
/// ranks would wait forever. `atexit` cannot be used: it is only in a static companion library of
/// libc.so.6, which compiled programs do not link.
struct Unfinished {
  const tpc_mpi_shim *shim = nullptr;
  ~Unfinished() {
    if (shim)
      shim->abort(1);
  }
} unfinished;

/// Ends the process if an MPI function takes too long. The launcher then ends the other processes.
class Alarm {
public:
  Alarm(double seconds, const Launcher &launcher, int rank, const char *what) {
    if (seconds > 0)
      watch = std::thread([=, this] {
        // Waits in short steps, so that time in which all processes were stopped does not count.
        std::unique_lock<std::mutex> lock(mutex);
        for (Timeout deadline(seconds); !deadline.isOver();)
          if (changed.wait_for(lock, std::chrono::milliseconds(500), [&] { return over; }))
            return;
        char text[64];
        std::snprintf(text, sizeof(text), ": has waited for %g s (--timeout=%g) ", seconds,
                      seconds);
        // One process per host reports the timeout, because all processes time out at once.
        if (claimMessage(launcher.key(), what))
          printDiagnostic("error",
                          (rank < 0 ? "a rank" : "rank " + std::to_string(rank)) + text + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
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

class MpiMessenger final : public Messenger {
public:
  MpiMessenger(const tpc_mpi_shim &shim, const Launcher &launcher, int rank, int size,
               double seconds)
      : shim(shim), launcher(launcher), rank(rank), size(size), seconds(seconds) {
    unfinished.shim = &shim;
  }

  ~MpiMessenger() override {
    unfinished.shim = nullptr;
    Alarm alarm(seconds, launcher, rank, "for all ranks to end");
    shim.finalize();
  }

  const char *name() const override { return "mpi"; }
  void start(std::span<const Message> sends, std::span<const Message> receives) override {
    if (shim.start(sends.data(), static_cast<int32_t>(sends.size()), receives.data(),
                   static_cast<int32_t>(receives.size())))
      throw std::bad_alloc();
  }
  void post(const Message &message) override {
    if (shim.post(&message))
      throw std::bad_alloc();
  }
  void flushNext() override { shim.flush_next(); }
  Progress advance() override { return Progress(shim.advance()); }
  void sleep(double waited) override { shim.sleep(waited); }
  int yields() const override { return 20; }
  void findAwaited(std::vector<int> &awaited) override {
    awaited.resize(size);
    awaited.resize(shim.awaited(awaited.data(), size));
  }
  [[noreturn]] void abort() override {
    shim.abort(1);
    std::abort();
  }

private:
  const tpc_mpi_shim &shim;
  const Launcher launcher;
  int rank, size;
  double seconds;
};

/// Secret and addresses of the rendezvous. Rank 0 sends them to the other ranks over MPI.
struct Directions {
  Nonce secret{};
  ProcessInfo first;
};

/// Connects all ranks for heartbeats, over sockets because only one thread may call MPI.
bool connectHeartbeats(Messenger &messenger, const Role &role, double timeout,
                       ConnectedRanks &connectedRanks, std::string &error) {
  ProcessInfo self = ProcessInfo::self();
  connectedRanks.processes = {self};
  if (role.size == 1)
    return true;
  Timeout deadline(startTimeout(timeout));
  Directions directions;
  Socket listener;
  if (role.rank == 0) {
    listener = listenForOthers(/*onlyHere=*/false, self, error);
    directions.first = self;
    if (!listener || getrandom(directions.secret.data(), directions.secret.size(), 0) < 0)
      directions.first.numAddresses = 0;
  }
  std::vector<Message> sends, receives;
  constexpr int32_t size = sizeof(directions);
  for (int peer = 1; peer < role.size && role.rank == 0; ++peer)
    sends.push_back({&directions, size, peer, MessageTransport::sessionTag});
  if (role.rank != 0)
    receives.push_back({&directions, size, 0, MessageTransport::sessionTag});
  messenger.start(sends, receives);
  for (int i = 0; messenger.advance() != Messenger::Progress::Delivered; ++i) {
    if (deadline.isOver()) {
      error = "rank 0 sends no message for " + std::to_string(int(deadline.seconds())) + " s";
      return false;
    }
    messenger.sleep(i * 1e-4);
  }
  if (directions.first.numAddresses == 0) {
    if (role.rank != 0)
      error.clear();
    return false;
  }
  Role secret = role;
  secret.run = "mpi ";
  for (uint8_t byte : directions.secret)
    secret.run += toHexDigits(byte).substr(14);
  const ProcessInfo &first = directions.first;
  std::vector<Address> addresses(first.addresses, first.addresses + first.numAddresses);
  if (first.host == self.host)
    std::reverse(addresses.begin(), addresses.end());
  std::string where = addresses[0].text();
  if (role.rank == 0)
    return acceptRanks(secret, self, std::move(listener), where, deadline, connectedRanks, error);
  return joinRendezvous(
      secret, self, where, [&](std::string &) { return addresses; }, deadline, connectedRanks,
      error);
}

} // namespace

std::shared_ptr<Session> joinMpi(const Launcher &launcher, std::string &error, double timeout) {
  std::string why =
      "this process was started by an MPI launcher (" + launcher.variable + " is set), but ";
  std::string advice = "; set TPC_TRANSPORT=threads to run all ranks in this process";

  // MPI's plugins look up symbols of the library that loaded them, hence RTLD_GLOBAL.
  std::string problem;
  void *library = loadRuntimeLibrary(libraryName, RTLD_NOW | RTLD_GLOBAL, problem);
  if (!library) {
    error = why + problem + " (is MPI installed?)" + advice;
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
    Alarm alarm(timeout, launcher, launcher.rank, "for all ranks to start");
    status = shim->init(&rank, &size, &onHost, &cores, text, sizeof(text));
  }
  if (status) {
    error = why + text;
    return nullptr;
  }
  auto messenger = std::make_unique<MpiMessenger>(*shim, launcher, rank, size, timeout);
  if (launcher.size > 0 && launcher.size != size) {
    // The launcher belongs to another MPI library, so each process would be a separate world.
    error = why + "MPI sees " + std::to_string(size) + " ranks where the launcher started " +
            std::to_string(launcher.size) +
            ": the launcher belongs to another MPI than the one that libtpc_mpi.so was built for";
    return nullptr;
  }
  ConnectedRanks connectedRanks;
  Role role{rank, size, "", launcher.key(), timeout > 0};
  if (!connectHeartbeats(*messenger, role, timeout, connectedRanks, error)) {
    if (!error.empty())
      printDiagnostic("error", "rank " + std::to_string(rank) + ": " + error +
                                   "; TPC_INTERFACE chooses the network interface");
    else
      std::this_thread::sleep_for(std::chrono::seconds(1));
    messenger->abort();
  }
  return std::make_shared<ProcessSession>(
      std::move(messenger),
      ProcessSession::RankInfo{rank, size, onHost, std::min(cores, quotaCores())},
      std::make_unique<Watchdog>(rank, connectedRanks.members(), timeout));
}

} // namespace tpc::rt
