//===- Comm.h - Communicators and their stream operations -----------------===//

#ifndef TPC_TEST_SIMULATOR_NCCL_COMM_H
#define TPC_TEST_SIMULATOR_NCCL_COMM_H

#include "Cuda/Private.h"
#include "Shared.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace sim::nccl {

/// A thread with communicators, which is a rank of the program. At most one of its operations, or
/// one group, is in flight at a time, so that operations in different orders on different ranks
/// deadlock.
struct Rank {
  std::mutex mutex;
  uint64_t group = 0; // that is in flight, or 0
  unsigned works = 0; // of it, not done
  std::atomic<uint64_t> calls{0}, begun{0}, joins{0}, aborts{0}, enrolled{0}; // for injections
  std::set<Comm *> comms;
};
std::shared_ptr<Rank> rankOfThread();

struct Window {
  uint64_t address, bytes;
};

/// Memory that a communicator was told of: what operations do with it goes that way, from when they
/// are called for. Graphs as well.
struct Registration {
  Registration(uint64_t address, uint64_t bytes) : address(address), bytes(bytes) {}
  const uint64_t address, bytes;
  std::atomic<bool> gone{false};
};

struct Comm {
  Shared shared;
  std::shared_ptr<Rank> owner;
  int rank = 0, ranks = 0, device = 0;
  std::string name; // for messages
  std::atomic<bool> aborted{false};
  std::atomic<Status> asyncError{Success};
  bool finalized = false;
  std::atomic<unsigned> outstanding{0}; // operations in streams
  std::atomic<uint64_t> arrivals{0};
  std::set<std::pair<Kind, int>> warm; // kinds, of sends and receives with their peers
  std::set<Window *> windows;
  std::mutex registrationMutex; // of what follows
  std::vector<std::shared_ptr<Registration>> registrations;
  std::string lastError;

  /// The registration that has these bytes, or null.
  std::shared_ptr<Registration> registrationOf(uint64_t address, uint64_t bytes);
  Slot &slot(int which) { return shared.header().slots[which]; }
  Slot &own() { return slot(rank); }

  /// Waits on the host until done() or until this is aborted. Says once if that takes long.
  template <class F> Status waitFor(const std::string &what, F done);
  /// Whether the process of another rank is no more.
  bool isGone(int which);
  /// Returns the asynchronous error of the communicator.
  Status error();
  /// Waits until all ranks have called this equally often.
  Status barrier(const std::string &what);
  /// Says in the rank's other communicators what it waits for; empty: nothing.
  void tell(const std::string &what);
  /// A missing rank reports its current operation.
  std::string whereIs(int which);
};
using CommRef = std::shared_ptr<Comm>;

void pauseBriefly();

template <class F> Status Comm::waitFor(const std::string &what, F done) {
  auto begin = std::chrono::steady_clock::now();
  bool said = false;
  while (!done()) {
    if (aborted)
      return InternalError;
    if (!said && std::chrono::steady_clock::now() - begin > std::chrono::seconds(3)) {
      said = true;
      tell(what);
      driver().finding("NCCL: stuck: rank " + std::to_string(rank) + " of " + name + " waits in " +
                       what);
    }
    pauseBriefly();
  }
  if (said)
    tell("");
  return Success;
}

/// A communicator as far as one rank can make it; others may not be there yet. Null, and why.
CommRef join(const UniqueId &id, int ranks, int rank, const Config *config, Status &status,
             std::string &why);
/// Waits for the others.
Status complete(Comm &comm);

/// One call.
struct Call {
  Descriptor descriptor;
  uint64_t send = 0, receive = 0;
  int peer = 0;
  std::vector<std::shared_ptr<Registration>> registrations = {}; // of its memory
};

/// The calls of one group on one communicator, as an operation of its stream.
std::shared_ptr<Work> makeWork(CommRef comm, std::vector<Call> calls, uint64_t group);
/// Before the first operation: it counts as being in flight as a part of its group.
uint64_t newGroup();

unsigned bytesOf(DataType type);
/// into[i] = into[i] op from[i], rounded to the type each time.
void combine(uint8_t *into, const uint8_t *from, uint64_t count, DataType type, RedOp op);
/// Divides a sum over `ranks` ranks for Avg.
void divide(uint8_t *into, uint64_t count, DataType type, int ranks);

} // namespace sim::nccl

#endif
