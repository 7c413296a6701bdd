//===- SharedRings.cpp - Byte streams through shared memory ---------------===//

#include "transport/tcp/SharedRings.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace tpc::rt {

static_assert(std::atomic<uint64_t>::is_always_lock_free,
              "an atomic shared between processes must be lock-free");

SharedMemory::~SharedMemory() { munmap(data, bytes); }

uint64_t Ring::used() const {
  return head->written.load(std::memory_order_seq_cst) - head->read.load(std::memory_order_seq_cst);
}

uint64_t Ring::put(const void *data, uint64_t count) {
  uint64_t numUsed = used(), at = head->written.load(std::memory_order_relaxed) % capacity;
  count = numUsed > capacity ? 0 : std::min(count, capacity - numUsed);
  uint64_t first = std::min(count, capacity - at);
  std::memcpy(bytes + at, data, first);
  std::memcpy(bytes, static_cast<const char *>(data) + first, count - first);
  head->written.fetch_add(count, std::memory_order_seq_cst);
  return count;
}

uint64_t Ring::take(void *data, uint64_t count) {
  uint64_t numUsed = used(), at = head->read.load(std::memory_order_relaxed) % capacity;
  count = numUsed > capacity ? 0 : std::min(count, numUsed);
  uint64_t first = std::min(count, capacity - at);
  std::memcpy(data, bytes + at, first);
  std::memcpy(static_cast<char *>(data) + first, bytes, count - first);
  head->read.fetch_add(count, std::memory_order_seq_cst);
  return count;
}

namespace {

class RingStream final : public Stream {
public:
  RingStream(std::shared_ptr<SharedMemory> memory, const Ring &in, const Ring &out, Socket socket)
      : memory(std::move(memory)), in(in), out(out), socket(std::move(socket)) {}

  int64_t write(std::span<const iovec> parts) override {
    uint64_t total = 0;
    for (const iovec &part : parts) {
      uint64_t count = ended ? 0 : out.put(part.iov_base, part.iov_len);
      total += count;
      if (count < part.iov_len)
        break;
    }
    if (total && out.head->readerSleeps.exchange(0, std::memory_order_seq_cst))
      ringBell();
    ended |= out.used() > out.capacity;
    return static_cast<int64_t>(total);
  }

  int64_t read(std::span<const iovec> parts) override {
    uint64_t total = 0;
    for (const iovec &part : parts) {
      uint64_t count = in.take(part.iov_base, part.iov_len);
      total += count;
      if (count < part.iov_len)
        break;
    }
    if (total && in.head->writerSleeps.exchange(0, std::memory_order_seq_cst))
      ringBell();
    ended |= in.used() > in.capacity;
    return static_cast<int64_t>(total);
  }

  /// Data written before the end is still readable.
  bool hasEnded() const override { return ended && (in.used() == 0 || in.used() > in.capacity); }

  // A rank sets its sleep flag and then checks for data again; a rank that moves data then checks
  // the flag. All accesses are sequentially consistent, so no wake-up is lost.
  bool prepareSleep(bool toWrite, bool toRead, int &descriptor, short &events) override {
    descriptor = socket.get();
    events = POLLIN;
    if (toRead)
      in.head->readerSleeps.store(1, std::memory_order_seq_cst);
    if (toWrite)
      out.head->writerSleeps.store(1, std::memory_order_seq_cst);
    return !(toRead && in.used() > 0) && !(toWrite && out.used() < out.capacity);
  }

  void wake(bool ready) override {
    in.head->readerSleeps.store(0, std::memory_order_relaxed);
    out.head->writerSleeps.store(0, std::memory_order_relaxed);
    char bells[64];
    ssize_t received = ready ? recv(socket.get(), bells, sizeof(bells), MSG_DONTWAIT) : 1;
    if (received == 0 ||
        (received < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      ended = true;
  }

private:
  void ringBell() {
    // If the socket's buffer is full, many wake-ups are already queued.
    char bell = 0;
    (void)!send(socket.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  std::shared_ptr<SharedMemory> memory;
  Ring in, out;
  Socket socket;
  bool ended = false;
};

/// Memory that the first rank of a host shares with the others.
struct Offer {
  int64_t process = 0, bytes = 0;
  int32_t descriptor = -1; ///< descriptor number in that process; -1: no memory
  int32_t padding = 0;
};

/// Layout of the rings of a host's ranks: first a page with the run's nonce.
struct Layout {
  explicit Layout(size_t ranks) : ranks(ranks) {
    constexpr uint64_t budget = 32 << 20;
    while (capacity > (16 << 10) && ranks * ranks * capacity > budget)
      capacity /= 2;
  }
  size_t ranks;
  /// Bytes of one ring. Typical activations fit. A larger message is sent in chunks, each of which
  /// makes both sides sleep if there are more ranks than cores.
  uint64_t capacity = 2 << 20;
  static constexpr uint64_t first = 4096;

  uint64_t stride() const { return sizeof(Ring::Head) + capacity; }
  size_t bytes() const { return first + ranks * ranks * stride(); }
  Ring ring(void *memory, size_t from, size_t to) const {
    char *at = static_cast<char *>(memory) + first + (from * ranks + to) * stride();
    return {reinterpret_cast<Ring::Head *>(at), at + sizeof(Ring::Head), capacity};
  }
};

/// Makes an unnamed file with all pages allocated: a write to a page that the system cannot provide
/// would kill the process.
Socket makeFile(size_t bytes, std::string &why) {
  Socket file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  int status = file ? posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) : errno;
  if (!status)
    return file;
  struct statvfs space{};
  statvfs("/dev/shm", &space);
  why = "/dev/shm has no " + std::to_string(bytes >> 10) + " KiB for their rings (" +
        std::strerror(status) + ", " + std::to_string((space.f_bavail * space.f_frsize) >> 10) +
        " KiB are free; in a container, --shm-size gives more)";
  return Socket();
}

std::shared_ptr<SharedMemory> map(int file, size_t bytes) {
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return data == MAP_FAILED ? nullptr : std::make_shared<SharedMemory>(data, bytes);
}

/// Maps the memory that another process shares. The descriptor is untrusted: it must be a file of
/// this run, that is an unnamed, in-memory file of this user that starts with the nonce.
std::shared_ptr<SharedMemory> accept(const Offer &offer, const Layout &layout, const Nonce &nonce) {
  if (offer.descriptor < 0 || offer.bytes != static_cast<int64_t>(layout.bytes()))
    return nullptr;
  std::string path =
      "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.descriptor);
  struct stat facts{};
  struct statfs system{};
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return nullptr; // opening a device may have side effects
  Socket file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file || fstat(file.get(), &facts) != 0 || fstatfs(file.get(), &system) != 0 ||
      !S_ISREG(facts.st_mode) || facts.st_nlink != 0 || facts.st_uid != geteuid() ||
      facts.st_size != offer.bytes || system.f_type != TMPFS_MAGIC)
    return nullptr;
  std::shared_ptr<SharedMemory> memory = map(file.get(), layout.bytes());
  return memory && !std::memcmp(memory->data, nonce.data(), nonce.size()) ? memory : nullptr;
}

} // namespace

bool shareRings(const Role &role, const ConnectedRanks &connectedRanks, Timeout &deadline,
                std::vector<Socket> &sockets, std::vector<std::unique_ptr<Stream>> &streams,
                std::string &error) {
  std::vector<int> near;
  for (int rank = 0; rank < role.size; ++rank)
    if (connectedRanks.processes[rank].host == connectedRanks.processes[role.rank].host)
      near.push_back(rank);
  if (near.size() < 2)
    return true;
  Layout layout(near.size());
  std::shared_ptr<SharedMemory> memory;
  Socket file;
  Offer offer;
  auto sendTo = [&](int rank, const auto &what) {
    return writeAll(sockets[rank].get(), &what, sizeof(what), deadline);
  };
  auto receiveFrom = [&](int rank, auto &what) {
    return readAll(sockets[rank].get(), &what, sizeof(what), deadline);
  };
  auto reportEnded = [&](int rank) {
    error = "rank " + std::to_string(rank) + " has ended at the start";
    return false;
  };
  uint8_t isShared = 0;
  if (near[0] == role.rank) {
    const char *setting = std::getenv("TPC_SHARED_MEMORY");
    bool isWanted = !setting || std::strcmp(setting, "0") != 0;
    std::string why;
    if (isWanted && (file = makeFile(layout.bytes(), why)) &&
        (memory = map(file.get(), layout.bytes()))) {
      std::memcpy(memory->data, connectedRanks.nonce.data(), connectedRanks.nonce.size());
      offer = {getpid(), static_cast<int64_t>(layout.bytes()), file.get()};
    }
    isShared = memory != nullptr;
    for (size_t i = 1; i < near.size(); ++i)
      if (!sendTo(near[i], offer))
        return reportEnded(near[i]);
    for (size_t i = 1; i < near.size(); ++i) {
      uint8_t accepted = 0;
      if (!receiveFrom(near[i], accepted))
        return reportEnded(near[i]);
      if (isShared && !accepted)
        why = "rank " + std::to_string(near[i]) + " cannot open the memory of rank " +
              std::to_string(role.rank) + " in /dev/shm";
      isShared &= accepted;
    }
    for (size_t i = 1; i < near.size(); ++i)
      if (!sendTo(near[i], isShared))
        return reportEnded(near[i]);
    if (!why.empty())
      std::fprintf(
          stderr,
          "note: the %zu ranks of a host communicate over sockets, not through shared memory, "
          "which is faster: %s\n",
          near.size(), why.c_str());
  } else {
    if (!receiveFrom(near[0], offer))
      return reportEnded(near[0]);
    memory = accept(offer, layout, connectedRanks.nonce);
    if (!sendTo(near[0], static_cast<uint8_t>(memory != nullptr)) ||
        !receiveFrom(near[0], isShared))
      return reportEnded(near[0]);
  }
  if (!isShared)
    return true;
  auto indexOf = [&](int rank) {
    return static_cast<size_t>(std::find(near.begin(), near.end(), rank) - near.begin());
  };
  size_t mine = indexOf(role.rank);
  for (int rank : near)
    if (rank != role.rank)
      streams[rank] = std::make_unique<RingStream>(
          memory, layout.ring(memory->data, indexOf(rank), mine),
          layout.ring(memory->data, mine, indexOf(rank)), std::move(sockets[rank]));
  return true;
}

} // namespace tpc::rt
