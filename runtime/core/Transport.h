//===- Transport.h - Communication between ranks --------------------------===//
//
// There is one object per rank. The ABI's entry points (Collectives.cpp) check arguments, count
// calls and bytes, and handle groups of one and empty tensors. The calls of a transport have at
// least two members, and at least one element on some member. All members pass the same sizes.
// Transports over host memory reduce in ascending rank order, with the kernels of Reduce.h.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TRANSPORT_H
#define TPC_RT_CORE_TRANSPORT_H

#include "core/Grid.h"
#include "tpc/runtime.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpc::rt {

/// Sizes of an all-to-all: input [outer, a, middle, own shard of b, inner], output [outer, own
/// shard of a, middle, b, inner], or with a and b swapped. `inner` is in bytes.
struct AllToAllShape {
  int64_t outer, a, middle, b, inner;
  bool splitFirst;
};

/// Axes (indices in grid order) that split n, and axes that then split the sequence of the
/// remaining elements of all blocks.
struct PermuteSide {
  std::vector<int> part, product;
};

/// A collective-permute of [outer, blocks, n, unit, inner]; `inner` is in bytes, `first` in [0,
/// n·unit). See core/BlockMove.h.
struct PermuteShape {
  int64_t outer, blocks, n, unit, inner, first;
  PermuteSide in, out;
};

/// A factor of a dimension: the axes that split it before and after.
struct ExchangeFactor {
  int64_t size;
  std::vector<int> before, after;
};
/// Factors of a dimension, and the axes that then split the product of what remains of the factors.
struct ExchangeDim {
  std::vector<ExchangeFactor> factors;
  std::vector<int> before, after;
};
/// An exchange of a tensor with these dimensions; `element` in bytes. See core/Exchange.h.
struct ExchangeShape {
  std::vector<ExchangeDim> dims;
  int64_t element;
};

class Transport {
public:
  virtual ~Transport();

  virtual const char *name() const = 0;
  /// Whether all ranks of the world share this address space.
  virtual bool sharesMemory() const = 0;
  /// Whether tensors reside in device memory, and communication is ordered after work enqueued
  /// before. Otherwise tensors are in host memory, and a call returns when it is complete.
  virtual bool isOnDevice() const;

  /// Called at the start of each run, and at the end of the world. Collective over the world, on
  /// each rank's thread.
  virtual void connect(tpc_context &ctx);
  virtual void disconnect(tpc_context &ctx);

  /// Returns the transport of host memory: this or the wrapped transport.
  virtual Transport &onHost() { return *this; }

  /// Returns the transport for this reduction: the wrapped transport if this one would give another
  /// result, else this one. The same on all ranks.
  virtual Transport &forReduction(tpc_dtype, tpc_reduction) { return *this; }

  virtual void allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                         tpc_reduction reduction, const void *in, void *out, int64_t count) = 0;
  /// Starts an all-reduce, and returns a token for `finish`; 0 if it is already complete. All
  /// members start their operations in the same order. The default is complete on return. Tokens of
  /// transports over host memory are greater than 0.
  virtual int32_t startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                 tpc_reduction reduction, const void *in, void *out, int64_t count);
  /// Waits until a started operation is complete.
  virtual void finish(tpc_context &ctx, int32_t token);
  /// `inner` in bytes.
  virtual void allGather(tpc_context &ctx, const Group &group, const void *in, void *out,
                         int64_t outer, int64_t n, int64_t inner) = 0;
  virtual void reduceScatter(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                             tpc_reduction reduction, const void *in, void *out, int64_t outer,
                             int64_t n, int64_t inner) = 0;
  virtual void allToAll(tpc_context &ctx, const Group &group, const void *in, void *out,
                        const AllToAllShape &shape) = 0;
  virtual void collectivePermute(tpc_context &ctx, const Group &group, const void *in, void *out,
                                 const PermuteShape &shape) = 0;
  virtual void exchange(tpc_context &ctx, const Group &group, const void *in, void *out,
                        const ExchangeShape &shape) = 0;
  /// `root` is an index into the group.
  virtual void broadcast(tpc_context &ctx, const Group &group, void *data, int64_t bytes,
                         int root) = 0;

  /// Sends to or receives from a world rank. Messages of a pair arrive in order; the receiver
  /// passes their size.
  virtual void send(tpc_context &ctx, int peer, const void *data, int64_t bytes) = 0;
  virtual void recv(tpc_context &ctx, int peer, void *data, int64_t bytes) = 0;

  /// Sends host memory in an order separate from `send`, for messages against the direction of the
  /// pipeline. `post` does not block: the message is buffered until the peer receives it. The
  /// number of messages in flight between a pair is at most the number of ranks.
  virtual void post(tpc_context &ctx, int peer, const void *data, int64_t bytes);
  virtual void take(tpc_context &ctx, int peer, void *data, int64_t bytes);
  /// Waits until the delivery of posted messages no longer needs this rank.
  virtual void flushPosts(tpc_context &ctx);

  /// Sends and receives messages within `memory`: in any order, at most one from each member to
  /// each other member. The receiver passes their size; empty ones are not sent. All members call,
  /// also without messages. Over host memory, messages are posted.
  struct GroupMessage {
    int member; ///< index into the group
    int64_t offset, bytes;
  };
  virtual void exchangeMessages(tpc_context &ctx, const Group &group, const char *what,
                                void *memory, std::span<const GroupMessage> sent,
                                std::span<const GroupMessage> received);

  /// Collective over the world, for start-up and for assembling outputs; not counted.
  virtual void barrier(tpc_context &ctx) = 0;
  /// Element-wise maximum over the ranks, in host memory. The same on all ranks.
  virtual void largest(tpc_context &ctx, std::span<int32_t> values);
  /// Gathers each rank's bytes at world rank 0 as `gathered[rank]`; other ranks leave `gathered`
  /// unchanged. The vectors are reused.
  virtual void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                           std::vector<std::vector<std::byte>> &gathered) = 0;

  /// Wakes all waiting ranks. Called once for the world's first error, on the failing rank's
  /// thread, after the message is stored. Does not return under MPI, which prints and aborts.
  virtual void abortWorld(int rank, const std::string &message) = 0;

  /// Returns the enqueued operation that the device waits in. Any thread may call it.
  struct DeviceWait {
    std::string at;           ///< "in all_reduce 17 of '/lm_head/MatMul' over 'tp'"
    std::vector<int> awaited; ///< ranks that it may wait for
    /// The axes of a collective's group, and its sequence number; 0 for other operations.
    uint32_t axes = 0;
    uint64_t number = 0;
  };
  virtual std::optional<DeviceWait> deviceWait();
  /// A number that changes whenever the device makes progress in communication.
  virtual uint64_t deviceMoves();
  /// Error of the devices' communication, or empty. Any thread may call it.
  virtual std::string deviceProblem();
  /// Aborts the device's communication; the rank cannot communicate afterwards. Any thread may call
  /// it; it may block on a hung device.
  virtual void abortDevice();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_TRANSPORT_H
