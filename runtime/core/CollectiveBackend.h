//===- CollectiveBackend.h - Device-to-device communication ---------------===//
//
// Communication library of a device kind, such as NCCL for GPUs. There is one object per rank. Its
// calls take equal, contiguous buffers; a CommPlan (transport/devices/CommPlan.h) builds a
// collective from such calls. A backend does not depend on grids;
// transport/devices/DeviceTransport.h maps grids onto it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_COLLECTIVEBACKEND_H
#define TPC_RT_CORE_COLLECTIVEBACKEND_H

#include "tpc/runtime.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tpc::rt {

/// Buffers that a plan reads and writes, all in device memory.
enum class CommMemory { In, Out, Stage };
/// Position in one of these buffers.
struct CommAddress {
  CommMemory memory = CommMemory::Stage;
  int64_t offset = 0; ///< bytes
};

/// Strided copy of `rows` blocks of `width` bytes.
struct CommCopy {
  CommAddress from, to;
  int64_t width, rows, fromStride, toStride;
};

/// A range that is filled with zeros.
struct CommFill {
  CommAddress at;
  int64_t bytes;
};

struct CommCall {
  enum Kind { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Receive };
  Kind kind;
  CommAddress from, to; ///< Send has no `to`, Receive has no `from`
  /// Elements per member: its input (AllGather) or its output (ReduceScatter).
  int64_t count;
  tpc_dtype dtype = TPC_U8; ///< element type; any for calls that only move data
  tpc_reduction reduction = TPC_SUM;
  int peer = 0; ///< Broadcast: the root; Send, Receive: the other side
};

/// One member's part of a collective: fills, copies before the calls, one group of calls, copies
/// after the calls.
struct CommPlan {
  int64_t stageBytes = 0;
  bool isMessage = false; ///< one Send or Receive, which may overlap with later work
  std::vector<CommFill> fills;
  std::vector<CommCopy> before;
  std::vector<CommCall> calls;
  std::vector<CommCopy> after;
};

/// An error that the end of another rank may have caused.
struct ConnectionLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Numbers of members and of communicators start at 0. Errors are exceptions of the standard
/// library.
class CollectiveBackend {
public:
  virtual ~CollectiveBackend();
  /// "NCCL 2.28.9"; all ranks must have the same version.
  virtual std::string name() const = 0;
  /// Whether max and min of floats match Reduce.h: NaN propagates, and signed zeros are ordered. If
  /// not, the host reduces them.
  virtual bool comparesLikeReduce() const { return true; }

  /// Unique id that one member creates and all members pass to `connect`.
  using Id = std::array<std::byte, 128>;
  virtual Id makeId() = 0;
  /// Creates a communicator and returns its number. Collective over the members. Communicators of
  /// one rank are connected one after the other.
  virtual int connect(const Id &id, int members, int index) = 0;
  /// Closes all communicators. Collective over their members; no operation may be in flight. Must
  /// not be called after `abort`.
  virtual void close() = 0;

  /// Communicator of plans without calls.
  static constexpr int none = -1;
  /// Enqueues a plan as one operation, after all work enqueued before. The calls of the plan form
  /// one group. All members enqueue plans in the same order.
  virtual void carryOut(int communicator, const CommPlan &plan, const void *in, void *out,
                        void *stage) = 0;
  /// Enqueues a plan without copies and fills, which may run at the same time as work enqueued
  /// later. Returns the token for `wait`, greater than 0. The plan counts as an operation in the
  /// order of plans.
  virtual int32_t start(int communicator, const CommPlan &plan, const void *in, void *out) = 0;
  /// Makes work that is enqueued later follow the operation of a token. Each token is passed once.
  virtual void wait(int32_t token) = 0;

  // Any thread may call the following functions.

  /// Number of enqueued operations that the device has started, and that it has completed.
  struct Progress {
    uint64_t reached = 0, done = 0;
  };
  virtual Progress progress() = 0;
  /// Returns the error of a communicator, or an empty string.
  virtual std::string problem(int communicator) = 0;
  /// Aborts all operations and destroys the communicators. Their results are undefined.
  virtual void abort() = 0;
};

class Transport;

/// Makes a transport that runs collectives and messages on `backend`, and start-up and outputs on
/// `host`.
std::unique_ptr<Transport> makeDeviceTransport(tpc_context &ctx, std::unique_ptr<Transport> host,
                                               std::unique_ptr<CollectiveBackend> backend);

} // namespace tpc::rt

#endif // TPC_RT_CORE_COLLECTIVEBACKEND_H
