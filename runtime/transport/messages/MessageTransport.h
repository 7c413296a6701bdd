//===- MessageTransport.h - Collectives built from messages ---------------===//
//
// Transport of ranks that are processes, over MPI or TCP. Collectives are built from point-to-point
// messages, so that reductions add in ascending rank order, as they do between threads.
// Non-contiguous data is packed into frames of host memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_MESSAGES_MESSAGETRANSPORT_H
#define TPC_RT_TRANSPORT_MESSAGES_MESSAGETRANSPORT_H

#include "core/LinkDelay.h"
#include "core/Transport.h"
#include "core/World.h"
#include "transport/messages/Messenger.h"
#include <deque>
#include <vector>

namespace tpc::rt {

class MessageTransport final : public Transport {
public:
  MessageTransport(Messenger &messenger, Watchdog &watch, World &world)
      : messenger(messenger), watch(watch), world(world) {}

  const char *name() const override { return messenger.name(); }
  bool sharesMemory() const override { return world.size() == 1; }

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
  void flushPosts(tpc_context &ctx) override;
  void barrier(tpc_context &ctx) override;
  void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                   std::vector<std::vector<std::byte>> &gathered) override;
  void abortWorld(int rank, const std::string &message) override;

  /// Tag of session messages (ProcessSession, start-up over MPI). No message of a transport has it.
  static constexpr int32_t sessionTag = 0x4002;

private:
  /// Sender and receiver both skip empty messages.
  void addSend(int peer, uint32_t tag, const void *data, int64_t bytes);
  void addReceive(int peer, uint32_t tag, void *data, int64_t bytes);
  /// An asynchronous all-reduce: its input was posted to all members. The messages of a pair of
  /// ranks arrive in the order of starts.
  struct AsyncOperation {
    const Group *group = nullptr; ///< null: the entry is free
    tpc_dtype dtype = TPC_F32;
    tpc_reduction reduction = TPC_SUM;
    const void *in = nullptr;
    void *out = nullptr;
    int64_t count = 0;
    int64_t readyAt = 0; ///< see LinkDelay.h
    bool isComplete = false;
  };
  /// Receives the inputs of the first asynchronous all-reduce that is not complete, and reduces
  /// them.
  void completeNext(tpc_context &ctx);

  /// Sends and receives all added messages, after those of all asynchronous operations.
  void carryOut(tpc_context &ctx);
  /// Moves the tensor blocks of an all-to-all (AllToAll), collective permute (BlockMove) or
  /// exchange (Exchange).
  template <typename BlockSource>
  void moveBlocks(tpc_context &ctx, const Group &group, const void *in, void *out,
                  const BlockSource &blockSource);

  Messenger &messenger;
  Watchdog &watch;
  World &world;
  std::vector<Message> sends, receives; ///< only grow
  std::vector<const void *> inputs;
  std::vector<AsyncOperation> asyncOperations; ///< by token
  std::deque<int32_t> incomplete;              ///< tokens, in the order of starts
  std::vector<Message> inputsOfOthers;
  std::vector<const void *> asyncInputs;
  LinkDelay delay;
  int64_t linkFree = 0; ///< end of the last operation, see LinkDelay.h
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_MESSAGES_MESSAGETRANSPORT_H
