//===- SharedRings.h - streams through memory that processes share --------===//
//
// Ranks of one host talk through a file in /dev/shm without a name, which is gone with the last of
// them: a ring of bytes for each ordered pair. The pair's socket stays, to wake who sleeps and to
// tell that the other one has ended.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_TCP_SHAREDRINGS_H
#define TPC_RT_TRANSPORT_TCP_SHAREDRINGS_H

#include "transport/sockets/Rendezvous.h"
#include "transport/tcp/Stream.h"
#include <atomic>
#include <memory>

namespace tpc::rt {

/// Memory that is mapped, shared by the streams in it.
class SharedMemory {
public:
  SharedMemory(void *data, size_t bytes) : data(data), bytes(bytes) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory &) = delete;
  SharedMemory &operator=(const SharedMemory &) = delete;

  void *const data;
  const size_t bytes;
};

/// Bytes from one process to another. What the other writes is not trusted: numbers that cannot be
/// end the stream.
struct Ring {
  struct Head {
    alignas(64) std::atomic<uint64_t> written;
    std::atomic<uint32_t> writerSleeps;
    alignas(64) std::atomic<uint64_t> read;
    std::atomic<uint32_t> readerSleeps;
  };
  Head *head = nullptr;
  char *bytes = nullptr;
  uint64_t capacity = 0;

  /// Bytes in the ring, by what both sides say; more than `capacity` if that cannot be.
  uint64_t used() const;
  uint64_t put(const void *data, uint64_t count);
  uint64_t take(void *data, uint64_t count);
};

/// Streams for all pairs of ranks of this host, in place of those sockets, which they take;
/// `streams` and `sockets` by rank. If any of the host's ranks cannot have them, none has, and
/// sockets do. False only if a rank is gone.
bool shareRings(const Role &role, const Meeting &meeting, Timeout &patience,
                std::vector<Socket> &sockets, std::vector<std::unique_ptr<Stream>> &streams,
                std::string &error);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_TCP_SHAREDRINGS_H
