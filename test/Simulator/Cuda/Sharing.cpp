//===- Sharing.cpp - Devices shared by processes --------------------------===//
//
// The folder TPC_SIM_SESSION has a locked file for each device, with the bytes that each process
// uses. Memory of a process that has ended is free. Without such a folder, no other process uses
// the devices.
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

/// Shares of all processes of a device. The file is locked until the object is destroyed.
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
  return settings().memory - std::min(used + settings().taken, settings().memory);
}

namespace {

constexpr uint64_t page = 2 << 20, unit = 512, largeFrom = 1 << 20;

uint64_t roundUp(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

void setUsed(Context &context, uint64_t small, uint64_t large) {
  context.small = small;
  context.large = large;
  context.used = roundUp(small, page) + large;
  if (context.used > context.peakUsed) {
    context.peakUsed = context.used;
    usage(context.device, context.peakUsed);
  }
  if (settings().session.empty())
    return;
  Shares shares(context.device);
  shares.changed = true;
  std::erase_if(shares.all, [](const Share &share) { return share.process == getpid(); });
  shares.all.push_back({getpid(), int64_t(context.used)});
}

} // namespace

uint64_t sim::usedWith(const Context &context, uint64_t bytes, bool isAllocated) {
  uint64_t small = context.small, large = context.large;
  uint64_t &changed = bytes < largeFrom ? small : large;
  uint64_t by = roundUp(bytes, bytes < largeFrom ? unit : page);
  changed = isAllocated ? changed + by : changed - by;
  return roundUp(small, page) + large;
}

void sim::count(Context &context, uint64_t bytes, bool isAllocated) {
  uint64_t by = roundUp(bytes, bytes < largeFrom ? unit : page);
  if (!isAllocated)
    by = -by;
  setUsed(context, context.small + (bytes < largeFrom ? by : 0),
          context.large + (bytes < largeFrom ? 0 : by));
}

void sim::forgetUsed(Context &context) { setUsed(context, 0, 0); }

std::string sim::describeAddress(Context &context, uint64_t address) {
  std::lock_guard lock(context.memoryMutex);
  return context.memory.describe(address);
}
