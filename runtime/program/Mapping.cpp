//===- Mapping.cpp - Memory mapping of a file range -----------------------===//

#include "program/Mapping.h"
#include "program/Error.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tpc::rt {

static thread_local Mapping *current = nullptr;
static const auto pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

/// The process's signal handler, while there are mappings.
struct MappingFaults {
  static inline std::mutex mutex;
  static inline int numMappings = 0;
  static inline struct sigaction before = {};

  static void begin() {
    std::lock_guard lock(mutex);
    if (numMappings++ > 0)
      return;
    struct sigaction own = {};
    own.sa_sigaction = handle;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, &own, &before);
  }
  static void end() {
    std::lock_guard lock(mutex);
    if (--numMappings > 0)
      return;
    // Does not replace a handler that was installed since.
    struct sigaction now = {};
    if (sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == handle)
      sigaction(SIGBUS, &before, nullptr);
  }
  static void handle(int number, siginfo_t *info, void *context) {
    bool isSent = info->si_code <= 0;
    if (!isSent && current && current->catches(info->si_addr))
      return;
    if (before.sa_flags & SA_SIGINFO) {
      before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL || (before.sa_handler == SIG_IGN && !isSent)) {
      std::signal(number, SIG_DFL);
      raise(number); // the signal is delivered after this handler returns
    } else if (before.sa_handler != SIG_IGN) {
      before.sa_handler(number);
    }
  }
};

Mapping::Mapping(const File &file, int64_t offset, int64_t bytes)
    : file(file), end(offset + bytes), outer(current) {
  if (bytes > 0) {
    auto page = static_cast<int64_t>(pageBytes);
    int64_t begin = offset / page * page;
    length = static_cast<size_t>(end - begin);
    void *mapped = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.descriptor(), begin);
    if (mapped == MAP_FAILED)
      throw UserError("cannot map weight file '" + file.path() + "': " + std::strerror(errno));
    base = static_cast<std::byte *>(mapped);
    at = base + (offset - begin);
  }
  MappingFaults::begin();
  current = this;
}

Mapping::~Mapping() {
  current = outer;
  MappingFaults::end();
  if (length > 0)
    munmap(base, length);
}

// Called in a signal handler, so it makes only system calls.
bool Mapping::catches(const void *address) {
  auto *byte = static_cast<const std::byte *>(address);
  if (!base || byte < base || byte >= base + length)
    return false;
  size_t from = static_cast<size_t>(byte - base) / pageBytes * pageBytes;
  int error = errno;
  bool isDone = mmap(base + from, length - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) != MAP_FAILED;
  errno = error;
  if (isDone)
    isLost = true;
  return isDone;
}

void Mapping::check() const {
  // The rest of a file's last page contains zeros and raises no signal.
  struct stat status = {};
  bool isShorter = fstat(file.descriptor(), &status) == 0 && status.st_size < end;
  if (isShorter)
    throw UserError(
        "weight file '" + file.path() + "' became shorter while it was loaded: it has " +
        std::to_string(status.st_size) + " bytes instead of " + std::to_string(file.size()));
  if (isLost)
    throw UserError("weight file '" + file.path() +
                    "' could not be read while it was loaded: its disk or server failed, or "
                    "another process truncated it");
}

} // namespace tpc::rt
