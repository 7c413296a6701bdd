//===- CollectiveBackend.h - how devices reach each other without the host ------------===//
//
// What a device may bring for communication: NCCL, for GPUs. One object per rank. Its calls want
// equal parts that are in a row; what a collective is made of, so that they are, is a CommPlan (see
// transport/devices/CommPlan.h). CollectiveBackend know nothing of grids;
// transport/devices/DeviceTransport.h does.
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

/// What a plan reads and writes, all of it in the device's memory.
enum class CommMemory { In, Out, Stage };
struct CommPlace {
  CommMemory memory = CommMemory::Stage;
  int64_t offset = 0; ///< bytes
};

/// `rows` blocks of `width` bytes, at two strides.
struct CommCopy {
  CommPlace from, to;
  int64_t width, rows, fromStride, toStride;
};

/// Zeros.
struct CommFill {
  CommPlace at;
  int64_t bytes;
};

struct CommCall {
  enum Kind { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Receive };
  Kind kind;
  CommPlace from, to; ///< Send has no `to`, Receive no `from`
  /// Elements of a member: what it gives (AllGather) or gets (ReduceScatter).
  int64_t count;
  tpc_dtype dtype = TPC_U8; ///< for what does not compute
  tpc_reduction reduction = TPC_SUM;
  int peer = 0; ///< Broadcast: the root; Send, Receive: the other side
};

/// One member's part of a collective: copies, calls that are begun together, copies.
struct CommPlan {
  int64_t stageBytes = 0;
  std::vector<CommFill> fills;
  std::vector<CommCopy> before;
  std::vector<CommCall> calls;
  std::vector<CommCopy> after;
};

/// An error that may be nothing but the end of another rank.
struct LinkBroken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Members of a group are numbered; so are links, from 0 on. Errors are exceptions of the standard
/// library.
class CollectiveBackend {
public:
  virtual ~CollectiveBackend();
  /// "NCCL 2.28.9"; all ranks must have the same.
  virtual std::string name() const = 0;
  /// Whether the largest and least of floats are those of Reduce.h: a NaN stays one, and zeros have
  /// signs. If not, they are found over the host.
  virtual bool comparesAsRanksDo() const { return true; }

  /// What one member makes, and all pass to connect.
  using Id = std::array<std::byte, 128>;
  virtual Id makeId() = 0;
  /// Collective over the members; groups of one rank are connected one after the other. The new
  /// link.
  virtual int connect(const Id &id, int members, int index) = 0;
  /// Collective over all members of all links; nothing is under way. Not after `abort`.
  virtual void close() = 0;

  /// Calls for it, behind all work that was called for before: a plan is one operation. All members
  /// do so in one order. The calls of a plan are made as one; one that has none may go without a
  /// link.
  static constexpr int none = -1;
  virtual void carryOut(int link, const CommPlan &plan, const void *in, void *out, void *stage) = 0;

  // What follows may be asked by any thread.

  /// Of the operations that were called for: how many the device has come to, and how many of these
  /// are done.
  struct Progress {
    uint64_t reached = 0, done = 0;
  };
  virtual Progress progress() = 0;
  /// What has happened to a link. Empty: nothing.
  virtual std::string problem(int link) = 0;
  /// Nothing is waited for any longer, and results are anything. The links are gone.
  virtual void abort() = 0;
};

class Transport;

/// Collectives and messages over `links`, the rest over `host`.
std::unique_ptr<Transport> makeDeviceTransport(tpc_context &ctx, std::unique_ptr<Transport> host,
                                               std::unique_ptr<CollectiveBackend> links);

} // namespace tpc::rt

#endif // TPC_RT_CORE_COLLECTIVEBACKEND_H
