//===- Sharing.cpp - processes that share devices -------------------------===//
//
// In the folder TPC_SIM_SESSION a file for each device says how much of it each process has, under
// a lock. What a process had that is no more is free. Without a session a process is alone.
//
//===----------------------------------------------------------------------===//

#include "Api.h"
#include "Process.h"

#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace sim;

namespace {

struct Share {
  int64_t process, bytes;
};

/// All shares of a device, until this is destroyed.
class Shares {
public:
  explicit Shares(int device) {
    std::string path = settings().session + "/device" + std::to_string(device);
    file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || flock(file, LOCK_EX))
      return;
    Share share;
    while (read(file, &share, sizeof(share)) == ssize_t(sizeof(share)))
      if (!isGone(int(share.process)))
        all.push_back(share);
  }
  ~Shares() {
    if (file < 0)
      return;
    if (changed && !ftruncate(file, 0)) {
      [[maybe_unused]] ssize_t written = pwrite(file, all.data(), all.size() * sizeof(Share), 0);
    }
    close(file);
  }
  Shares(const Shares &) = delete;

  std::vector<Share> all;
  bool changed = false;

private:
  int file = -1;
};

} // namespace

uint64_t sim::freeBytes(Context &context) {
  uint64_t used = context.used;
  if (!settings().session.empty()) {
    used = 0;
    for (const Share &share : Shares(context.device).all)
      used += uint64_t(share.bytes);
  }
  return settings().memory - std::min(used, settings().memory);
}

void sim::changeUsed(Context &context, int64_t by) {
  context.used = uint64_t(int64_t(context.used) + by);
  if (settings().session.empty())
    return;
  Shares shares(context.device);
  shares.changed = true;
  std::erase_if(shares.all, [](const Share &share) { return share.process == getpid(); });
  shares.all.push_back({getpid(), int64_t(context.used)});
}

std::string sim::describeAddress(Context &context, uint64_t address) {
  std::lock_guard lock(context.memoryMutex);
  return context.memory.describe(address);
}
