//===- MpiSession.cpp - finding and loading the MPI shim ------------------===//

#include "core/World.h"
#include "transport/mpi/MpiTransport.h"
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
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
/// which looks where the compiler found the runtime (the executable's run path) and in its own places.
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

uint64_t hashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

class MpiSession final : public Session {
public:
  MpiSession(const tpc_mpi_shim &shim, int rank, int size, int onHost, int cores)
      : shim(shim), myRank(rank), worldSize(size), onHost(onHost), cores(cores) {
    unfinished.shim = &shim;
  }

  ~MpiSession() override {
    unfinished.shim = nullptr;
    shim.finalize();
  }

  int rank() const override { return myRank; }
  int size() const override { return worldSize; }
  int ranksOnHost() const override { return onHost; }
  int coresOnHost() const override { return cores; }
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
    std::vector<uint64_t> all = allOf(hashOf(text));
    for (int peer = 1; peer < worldSize; ++peer)
      if (all[peer] != all[0])
        return peer;
    return -1;
  }

  void leave(tpc_context &ctx) override {
    if (shim.leave() == -2)
      fail(ctx, "out of memory at the end of the run");
  }

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
    shim.exchange(sends.data(), static_cast<int32_t>(sends.size()), receives.data(),
                  static_cast<int32_t>(receives.size()), 0);
    return all;
  }

  const tpc_mpi_shim &shim;
  int myRank, worldSize, onHost, cores;
};

} // namespace

std::shared_ptr<Session> joinMpi(const Launcher &launcher, std::string &error) {
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
  if (shim->init(&rank, &size, &onHost, &cores, text, sizeof(text))) {
    error = why + text;
    return nullptr;
  }
  auto session = std::make_shared<MpiSession>(*shim, rank, size, onHost, cores);
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
