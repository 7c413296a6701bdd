//===- Shared.h - Shared state of a communicator's ranks ------------------===//
//
// Ranks share a memory file. The process that requests the unique identifier creates it, and the
// identifier names it. Ranks open it through the descriptor of that process, so that no file
// remains, however they end. After the header, each rank has a region for data that it sends to
// other ranks. Pages that are never written occupy no memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_NCCL_SHARED_H
#define TPC_TEST_SIMULATOR_NCCL_SHARED_H

#include "Types.h"

#include <atomic>
#include <string>

namespace sim::nccl {

constexpr int maxRanks = 64;
constexpr uint64_t stagingBytes = uint64_t(1) << 30; // each for collectives and for sends

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

/// State that a rank publishes to the others.
struct Slot {
  std::atomic<uint32_t> joined;
  int32_t process, ranks, device;
  uint64_t host;
  std::atomic<uint64_t> posted;   // number of collectives whose input the rank has written
  std::atomic<uint64_t> consumed; // number of collectives whose inputs the rank has read
  Descriptor descriptor;          // arguments of the last posted collective
  std::atomic<uint64_t> connected[size_t(Kind::NumKinds)]; // numbers of first calls of a kind
  std::atomic<uint64_t> arrived; // number of host calls that wait for all ranks: splits, windows
  int32_t color, key;
  UniqueId id;                 // created by the first rank of a color
  std::atomic<uint64_t> waits; // odd while `where` is written
  char where[200];             // what the rank waits for in another communicator
};

/// Messages from one rank to another.
struct Channel {
  std::atomic<uint64_t> sent, received;
  std::atomic<uint32_t> sends, receives; // numbers of first calls
  DataType type;
  uint64_t count, offset;
};

struct Header {
  uint64_t magic;
  std::atomic<uint32_t> settled; // set when all ranks have opened the file
  Slot slots[maxRanks];
  Channel channels[maxRanks][maxRanks]; // by sender and receiver
};

/// A mapping of the memory file.
class Shared {
public:
  Shared() = default;
  Shared(const Shared &) = delete;
  ~Shared();

  /// Creates a memory file. Returns false if this fails.
  static bool create(UniqueId &id);
  /// Returns false, and the reason, if no process has this identifier any more.
  bool open(const UniqueId &id, int ranks, std::string &why);

  /// Called when all ranks have opened the file. No other rank may open it afterwards, and the last
  /// rank closes it.
  void settle();

  Header &header() { return *static_cast<Header *>(mapped); }
  uint8_t *staging(int rank, bool sends);

private:
  void *mapped = nullptr;
  uint64_t bytes = 0;
  int32_t maker = -1, file = -1; // process that created the file, and its descriptor there
};

} // namespace sim::nccl

#endif
