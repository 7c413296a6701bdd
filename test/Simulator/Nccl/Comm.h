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

/// A thread that has communicators: a rank of the program. At most one of its operations or groups
/// is in flight at a time. So ranks that enqueue operations in different orders deadlock.
struct Rank {
  std::mutex mutex;
  uint64_t group = 0; // number of the group in flight, or 0
  unsigned works = 0; // operations of the group that are not complete
  std::atomic<uint64_t> calls{0}, begun{0}, joins{0}, aborts{0},
      enrolled{0}; // counts for injected faults
  std::set<Comm *> comms;
};
std::shared_ptr<Rank> rankOfThread();

struct Window {
  uint64_t address, bytes;
};

/// Memory that is registered with a communicator. An operation, also in a graph, uses the
/// registration that exists at its call.
struct Registration {
  Registration(uint64_t address, uint64_t bytes) : address(address), bytes(bytes) {}
  const uint64_t address, bytes;
  std::atomic<bool> gone{false};
};

struct Comm {
  Shared shared;
  std::shared_ptr<Rank> owner;
  int rank = 0, ranks = 0, device = 0;
  std::string name; // for point-to-point messages
  std::atomic<bool> aborted{false};
  std::atomic<Status> asyncError{Success};
  bool finalized = false;
  std::atomic<unsigned> outstanding{0}; // operations enqueued in streams
  std::atomic<uint64_t> arrivals{0};    // number of barriers that this rank has reached
  std::set<std::pair<Kind, int>> warm;  // connected kinds; for sends and receives, with their peers
  std::set<Window *> windows;
  std::mutex registrationMutex; // guards `registrations`
  std::vector<std::shared_ptr<Registration>> registrations;
  std::string lastError;

  /// Returns the registration that contains these bytes, or null.
  std::shared_ptr<Registration> registrationOf(uint64_t address, uint64_t bytes);
  Slot &slot(int which) { return shared.header().slots[which]; }
  Slot &own() { return slot(rank); }

  /// Waits on the host until done() or an abort. Reports a long wait once.
  template <class F> Status waitFor(const std::string &what, F done);
  /// Whether the process of another rank has ended.
  bool isGone(int which);
  /// Returns the asynchronous error of the communicator.
  Status error();
  /// Barrier of all ranks.
  Status barrier(const std::string &what);
  /// Publishes in the rank's other communicators what the rank waits for, or an empty text.
  void publishWait(const std::string &what);
  /// Describes what a rank that has not arrived does instead.
  std::string whereIs(int which);
};
using CommRef = std::shared_ptr<Comm>;

void pauseBriefly();

template <class F> Status Comm::waitFor(const std::string &what, F done) {
  auto begin = std::chrono::steady_clock::now();
  bool reported = false;
  while (!done()) {
    if (aborted)
      return InternalError;
    if (!reported && std::chrono::steady_clock::now() - begin > std::chrono::seconds(3)) {
      reported = true;
      publishWait(what);
      driver().finding("NCCL: stuck: rank " + std::to_string(rank) + " of " + name + " waits in " +
                       what);
    }
    pauseBriefly();
  }
  if (reported)
    publishWait("");
  return Success;
}

/// Creates the local part of a communicator; other ranks need not have joined. If this fails,
/// returns null and the reason.
CommRef join(const UniqueId &id, int ranks, int rank, const Config *config, Status &status,
             std::string &why);
/// Waits for the other ranks.
Status complete(Comm &comm);

/// One call of NCCL.
struct Call {
  Descriptor descriptor;
  uint64_t send = 0, receive = 0;
  int peer = 0;
  std::vector<std::shared_ptr<Registration>> registrations = {}; // registrations of its buffers
};

/// Returns one operation for the calls of one group on one communicator.
std::shared_ptr<Work> makeWork(CommRef comm, std::vector<Call> calls, uint64_t group);
/// Returns the number of a new group, whose operations are in flight together.
uint64_t newGroup();

unsigned bytesOf(DataType type);
/// Computes into[i] = into[i] op from[i], rounded to the type.
void combine(uint8_t *into, const uint8_t *from, uint64_t count, DataType type, RedOp op);
/// Divides a sum over `ranks` ranks for Avg.
void divide(uint8_t *into, uint64_t count, DataType type, int ranks);

} // namespace sim::nccl

#endif
