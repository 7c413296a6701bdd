//===- Transport.h - how ranks reach each other ---------------------------===//
//
// One object per rank. The entry points of the ABI (Collectives.cpp) check arguments, count, and
// settle groups of one and empty tensors; what arrives here has at least two members and at least
// one element somewhere in the group. All members call with the same numbers. Reductions combine in
// ascending rank order, with the kernels of Reduce.h, on every transport over the host's memory.
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

/// The sizes of an all-to-all: in [outer, a, middle, own part of b, inner], out [outer, own part of
/// a, middle, b, inner], or with the roles of a and b exchanged. `inner` is in bytes.
struct AllToAllShape {
  int64_t outer, a, middle, b, inner;
  bool splitFirst;
};

/// Axes (places in the grid's order) that split n, and those that split what is left of all.
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
/// Factors, and the axes that split what is then left of their product.
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
  /// Whether all ranks of the world live in this address space.
  virtual bool sharesMemory() const = 0;
  /// Whether tensors are where the device has them, and are moved behind the work that was called
  /// for before. Otherwise they are in the host's memory, and all is done when a call returns.
  virtual bool isOnDevice() const;

  /// On each rank's thread, collective over the world: at the beginning of each run, and at the end
  /// of the world.
  virtual void connect(tpc_context &ctx);
  virtual void disconnect(tpc_context &ctx);

  /// What moves the host's memory: this one, or one that it goes over.
  virtual Transport &onHost() { return *this; }

  /// Who reduces so: this one, or one that it goes over, if its own way would give another result.
  /// The same on all ranks.
  virtual Transport &forReduction(tpc_dtype, tpc_reduction) { return *this; }

  virtual void allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                         tpc_reduction reduction, const void *in, void *out, int64_t count) = 0;
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

  /// To and from a world rank. Messages of one pair arrive in order; the receiver knows their size.
  virtual void send(tpc_context &ctx, int peer, const void *data, int64_t bytes) = 0;
  virtual void recv(tpc_context &ctx, int peer, void *data, int64_t bytes) = 0;

  /// The same, of the host's memory and in an order of their own, for what goes back while steps go
  /// forward: `post` waits for nobody, the message is kept until the peer takes it. As many as
  /// there are ranks may be on their way from one to another.
  virtual void post(tpc_context &ctx, int peer, const void *data, int64_t bytes);
  virtual void take(tpc_context &ctx, int peer, void *data, int64_t bytes);
  /// Until what was posted needs this rank no longer.
  virtual void flushPosts(tpc_context &ctx);

  /// Collective over the world, for start-up and for assembling outputs; not counted.
  virtual void barrier(tpc_context &ctx) = 0;
  /// The same on all ranks: of each of these, in the host's memory, the largest that a rank has.
  virtual void largest(tpc_context &ctx, std::span<int32_t> values);
  /// Gives world rank 0 what each rank had, `gathered[rank]`; the others leave `gathered` alone.
  /// The vectors are reused.
  virtual void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                           std::vector<std::vector<std::byte>> &gathered) = 0;

  /// Called once for the world's first error, on the failing rank's thread, after the message is
  /// kept: wakes whoever waits. May not return (MPI prints and aborts).
  virtual void abortWorld(int rank, const std::string &message) = 0;

  /// What the device waits for, of what was called for earlier. May be asked by any thread.
  struct DeviceWait {
    std::string at;           ///< "in all_reduce 17 of '/lm_head/MatMul' over 'tp'"
    std::vector<int> missing; ///< ranks that it may wait for
    /// Of a collective: of which group, and its number in it. 0: of none.
    uint32_t axes = 0;
    uint64_t number = 0;
  };
  virtual std::optional<DeviceWait> deviceWait();
  /// Another number whenever the device has got further with what is communicated.
  virtual uint64_t deviceMoves();
  /// What has happened to what devices communicate by; empty: nothing. By any thread.
  virtual std::string deviceProblem();
  /// The device waits for nobody any longer, and the rank cannot communicate. By any thread, which
  /// may have to wait for a device that hangs.
  virtual void abortDevice();
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_TRANSPORT_H
