//===- SharedRings.h - Byte streams through shared memory -----------------===//
//
// Ranks of one host communicate through an unnamed file in /dev/shm, which is removed when the last
// process ends. The file contains a ring buffer for each ordered pair of ranks. The socket of the
// pair stays open, to wake a sleeping rank and to detect the end of a rank.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_TCP_SHAREDRINGS_H
#define TPC_RT_TRANSPORT_TCP_SHAREDRINGS_H

#include "transport/sockets/Rendezvous.h"
#include "transport/tcp/Stream.h"
#include <atomic>
#include <memory>

namespace tpc::rt {

/// Mapped memory, shared by the streams in it.
class SharedMemory {
public:
  SharedMemory(void *data, size_t bytes) : data(data), bytes(bytes) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory &) = delete;
  SharedMemory &operator=(const SharedMemory &) = delete;

  void *const data;
  const size_t bytes;
};

/// Ring buffer from one process to another. The other side's writes are untrusted: invalid counters
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

  /// Number of bytes in the ring, from both sides' counters; more than `capacity` if they are
  /// invalid.
  uint64_t used() const;
  uint64_t put(const void *data, uint64_t count);
  uint64_t take(void *data, uint64_t count);
};

/// Makes ring streams for all pairs of ranks of this host. The new streams own the sockets of these
/// pairs. `streams` and `sockets` by rank. If any of the host's ranks cannot share memory, all keep
/// their sockets. Returns false only if a rank is gone.
bool shareRings(const Role &role, const ConnectedRanks &connectedRanks, Timeout &deadline,
                std::vector<Socket> &sockets, std::vector<std::unique_ptr<Stream>> &streams,
                std::string &error);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_TCP_SHAREDRINGS_H
