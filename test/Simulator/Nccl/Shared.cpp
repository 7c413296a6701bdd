//===- Shared.cpp - Shared state of a communicator's ranks ----------------===//

#include "Shared.h"

#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace sim::nccl {

constexpr uint64_t headerBytes = (sizeof(Header) + 4095) / 4096 * 4096;

namespace {
struct Name {
  uint64_t magic, number;
  int32_t process, file;
};
} // namespace

const char *nameOf(Kind kind) {
  constexpr const char *names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                   "Reduce",    "Send",          "Recv"};
  return names[size_t(kind)];
}

std::string Descriptor::str() const {
  constexpr const char *types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                   "uint64", "float16", "float32", "float64", "bfloat16"};
  constexpr const char *ops[] = {"sum", "prod", "max", "min", "avg"};
  std::string result =
      std::string(nameOf(kind)) + " of " + std::to_string(count) + " " + types[type];
  if (kind == Kind::AllReduce || kind == Kind::ReduceScatter || kind == Kind::Reduce)
    result += std::string(", ") + ops[op];
  if (kind == Kind::Broadcast || kind == Kind::Reduce)
    result += ", root " + std::to_string(root);
  return result;
}

bool Shared::create(UniqueId &id) {
  int file = memfd_create("simulated-nccl", MFD_CLOEXEC);
  if (file < 0)
    return false;
  std::random_device random;
  Name name{0x6c63636e6d6973, uint64_t(random()) << 32 | random(), getpid(), file};
  std::memset(&id, 0, sizeof(id));
  std::memcpy(&id, &name, sizeof(name));
  bool good = !ftruncate(file, off_t(headerBytes + 2 * maxRanks * stagingBytes)) &&
              pwrite(file, &name.number, sizeof(name.number), 0) == ssize_t(sizeof(name.number));
  if (!good)
    close(file);
  return good; // the file stays open, because other ranks open it through this process
}

bool Shared::open(const UniqueId &id, int ranks, std::string &why) {
  Name name;
  std::memcpy(&name, &id, sizeof(name));
  if (name.magic != 0x6c63636e6d6973) {
    why = "the identifier is not from ncclGetUniqueId";
    return false;
  }
  std::string path = "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    why = "the process that created the identifier has ended";
    return false;
  }
  maker = name.process;
  this->file = name.file;
  bytes = headerBytes + 2 * uint64_t(ranks) * stagingBytes;
  mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) {
    mapped = nullptr;
    why = "its memory cannot be mapped";
    return false;
  }
  if (header().magic != name.number) {
    why = "the process that created the identifier has ended";
    return false;
  }
  return true;
}

void Shared::settle() {
  if (maker == getpid() && !header().settled.exchange(1))
    close(file);
}

Shared::~Shared() {
  if (mapped)
    munmap(mapped, bytes);
}

uint8_t *Shared::staging(int rank, bool sends) {
  return static_cast<uint8_t *>(mapped) + headerBytes +
         (2 * uint64_t(rank) + (sends ? 1 : 0)) * stagingBytes;
}

} // namespace sim::nccl
