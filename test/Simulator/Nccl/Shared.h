//===- Shared.h - Shared state of a communicator's ranks ------------------===//
//
// A memory file, created by the process that requests the unique identifier, which names it. Ranks
// open it through the descriptor of that process, so that no file remains, however they end. After
// the header, each rank has a region for data to other ranks; unwritten pages occupy no memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_NCCL_SHARED_H
#define TPC_TEST_SIMULATOR_NCCL_SHARED_H

#include "Types.h"

#include <atomic>
#include <string>

namespace sim::nccl {

constexpr int maxRanks = 64;
constexpr uint64_t stagingBytes = uint64_t(1) << 30; // of collectives, and again of sends

enum class Kind : uint32_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Reduce,
  Send,
  Recv,
  NumKinds
};
const char *nameOf(Kind kind);

/// Arguments that must be equal on all ranks.
struct Descriptor {
  Kind kind;
  DataType type;
  RedOp op;
  int32_t root;
  uint64_t count;

  bool operator==(const Descriptor &) const = default;
  std::string str() const;
};

/// One rank, as it tells others.
struct Slot {
  std::atomic<uint32_t> joined;
  int32_t process, ranks, device;
  uint64_t host;
  std::atomic<uint64_t> posted;   // collectives whose input is there
  std::atomic<uint64_t> consumed; // collectives of which it needs nothing more
  Descriptor descriptor;          // of the last one posted
  std::atomic<uint64_t> connected[size_t(Kind::NumKinds)]; // first calls of a kind
  std::atomic<uint64_t> arrived; // at calls of the host that wait for all: splits, windows
  int32_t color, key;
  UniqueId id;                 // that the first of a color made
  std::atomic<uint64_t> waits; // odd while `where` is written
  char where[200];             // what it waits for in another communicator
};

/// From one rank to another.
struct Channel {
  std::atomic<uint64_t> sent, received;
  std::atomic<uint32_t> sends, receives; // first calls
  DataType type;
  uint64_t count, offset;
};

struct Header {
  uint64_t magic;
  std::atomic<uint32_t> settled; // all ranks have it
  Slot slots[maxRanks];
  Channel channels[maxRanks][maxRanks]; // from, to
};

/// A mapping of it.
class Shared {
public:
  Shared() = default;
  Shared(const Shared &) = delete;
  ~Shared();

  /// A new one. False if the system has none.
  static bool create(UniqueId &id);
  /// Returns false, and the reason, if no process has this identifier any more.
  bool open(const UniqueId &id, int ranks, std::string &why);

  /// Called when all ranks have opened it: no others may, and the last rank removes it.
  void settle();

  Header &header() { return *static_cast<Header *>(mapped); }
  uint8_t *staging(int rank, bool sends);

private:
  void *mapped = nullptr;
  uint64_t bytes = 0;
  int32_t maker = -1, file = -1; // process and descriptor
};

} // namespace sim::nccl

#endif
