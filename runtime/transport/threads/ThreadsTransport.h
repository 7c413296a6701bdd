//===- ThreadsTransport.h - Transport of ranks that are threads -----------===//
//
// Members publish pointers, wait at a barrier, read each other's tensors, and wait again before any
// tensor may change. Tensors that fit into a staging buffer are copied there instead, which avoids
// the second barrier.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_THREADS_THREADSTRANSPORT_H
#define TPC_RT_TRANSPORT_THREADS_THREADSTRANSPORT_H

#include "core/Transport.h"
#include "transport/threads/Hub.h"
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace tpc::rt {

class ThreadsTransport final : public Transport {
public:
  ThreadsTransport(std::shared_ptr<Hub> hub, int rank);

  const char *name() const override { return "threads"; }
  bool sharesMemory() const override { return true; }

  void allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                 const void *in, void *out, int64_t count) override;
  int32_t startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                         tpc_reduction reduction, const void *in, void *out,
                         int64_t count) override;
  void finish(tpc_context &ctx, int32_t token) override;
  void allGather(tpc_context &ctx, const Group &group, const void *in, void *out, int64_t outer,
                 int64_t n, int64_t inner) override;
  void reduceScatter(tpc_context &ctx, const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                     const void *in, void *out, int64_t outer, int64_t n, int64_t inner) override;
  void allToAll(tpc_context &ctx, const Group &group, const void *in, void *out,
                const AllToAllShape &shape) override;
  void collectivePermute(tpc_context &ctx, const Group &group, const void *in, void *out,
                         const PermuteShape &shape) override;
  void exchange(tpc_context &ctx, const Group &group, const void *in, void *out,
                const ExchangeShape &shape) override;
  void broadcast(tpc_context &ctx, const Group &group, void *data, int64_t bytes,
                 int root) override;
  void send(tpc_context &ctx, int peer, const void *data, int64_t bytes) override;
  void recv(tpc_context &ctx, int peer, void *data, int64_t bytes) override;
  void post(tpc_context &ctx, int peer, const void *data, int64_t bytes) override;
  void take(tpc_context &ctx, int peer, void *data, int64_t bytes) override;
  void barrier(tpc_context &ctx) override;
  void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                   std::vector<std::vector<std::byte>> &gathered) override;
  void abortWorld(int rank, const std::string &message) override;

private:
  /// This rank's state in one group.
  struct GroupState {
    Barrier *barrier = nullptr;
    /// Number of collectives so far; selects the published buffer.
    uint32_t turn = 0;
    std::vector<const void *> pointers; ///< one for each member
    uint64_t started = 0;               ///< number of started operations so far
  };
  /// A started operation that this rank has not waited for.
  struct StartedToken {
    const Group *group = nullptr; ///< null: the entry is free
    uint64_t number = 0;
    tpc_dtype dtype = TPC_F32;
    tpc_reduction reduction = TPC_SUM;
    int64_t bytes = 0;
  };
  class CollectiveScope;
  struct Channels {
    bool posts;
    std::vector<Channel *> byPeer; ///< null until first used
    Channel &with(Hub &hub, int from, int to, int peer);
  };

  GroupState &stateIn(const Group &group);
  /// Moves the tensor blocks of an all-to-all (AllToAll), collective permute (BlockMove) or
  /// exchange (Exchange).
  template <typename BlockSource>
  void moveBlocks(tpc_context &ctx, const Group &group, const void *in, void *out,
                  const BlockSource &blockSource);
  void arriveAndWait(tpc_context &ctx, Barrier &barrier);
  void arriveAndWaitAgain(Barrier &barrier);
  void put(tpc_context &ctx, Channel &channel, int peer, const void *data, int64_t bytes);
  void get(tpc_context &ctx, Channel &channel, int peer, void *data, int64_t bytes);
  /// Waits for the members of a barrier, or, without a barrier, for `peer`. `operation`: the wait
  /// is for the members that have not started operation `number`.
  void wait(tpc_context &ctx, WaitWord &word, uint32_t seen, const Barrier *barrier, int peer,
            const char *where, const StartedOperation *operation = nullptr, uint64_t number = 0);
  [[noreturn]] void failLate(tpc_context &ctx);

  std::shared_ptr<Hub> hub;
  int rank;
  bool spin;
  std::map<uint32_t, GroupState> groupStates;
  std::vector<StartedToken> tokens;
  Channels sending{false, {}}, receiving{false, {}}, posting{true, {}}, taking{true, {}};
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_THREADS_THREADSTRANSPORT_H
