//===- ThreadsTransport.cpp - Transport of ranks that are threads ---------===//

#include "transport/threads/ThreadsTransport.h"
#include "core/AllToAll.h"
#include "core/BlockMove.h"
#include "core/Context.h"
#include "core/DType.h"
#include "core/Exchange.h"
#include "core/Layout.h"
#include "core/Reduce.h"
#include "core/World.h"
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace tpc::rt {

/// Scope of a collective: publishes this member's tensors and waits for the others. The destructor
/// waits until no other member reads this member's tensors.
class ThreadsTransport::CollectiveScope {
public:
  /// `largest`: maximum bytes that any member publishes; the same on all members. Tensors are
  /// staged only if `out` is null.
  CollectiveScope(ThreadsTransport &transport, tpc_context &ctx, const Group &group, const void *in,
                  void *out, int64_t bytes, int64_t largest)
      : transport(transport), state(transport.stateIn(group)), slots(state.barrier->slots),
        turn(state.turn++ & 1), staged(!out && largest <= state.barrier->stageBytes) {
    Barrier::Slot &slot = slots[group.index];
    if (staged && bytes)
      std::memcpy(slot.stage[turn], in, static_cast<size_t>(bytes));
    slot.published[turn] = {staged ? slot.stage[turn] : in, out, bytes};
    transport.arriveAndWait(ctx, *state.barrier);
  }
  void end() {
    if (!staged)
      transport.arriveAndWaitAgain(*state.barrier);
  }

  const Barrier::Published &operator[](int member) const { return slots[member].published[turn]; }
  /// Returns every member's input, from byte `offset` on.
  const void *const *inputs(int64_t offset) {
    for (size_t member = 0; member < slots.size(); ++member)
      state.pointers[member] = static_cast<const char *>(slots[member].published[turn].in) + offset;
    return state.pointers.data();
  }

private:
  ThreadsTransport &transport;
  GroupState &state;
  std::vector<Barrier::Slot> &slots;
  uint32_t turn;
  bool staged;
};

ThreadsTransport::ThreadsTransport(std::shared_ptr<Hub> hub, int rank)
    : hub(std::move(hub)), rank(rank), spin(this->hub->world.maySpin()) {}

ThreadsTransport::GroupState &ThreadsTransport::stateIn(const Group &group) {
  GroupState &state = groupStates[group.axes];
  if (!state.barrier) {
    state.barrier = &hub->barrier(group);
    state.pointers.resize(group.size());
  }
  return state;
}

void ThreadsTransport::wait(tpc_context &ctx, WaitWord &word, uint32_t seen, const Barrier *barrier,
                            int peer, const char *where, const StartedOperation *operation,
                            uint64_t number) {
  Hub::Wait &mine = hub->waitOf(rank);
  mine.operation.store(operation, std::memory_order_relaxed);
  mine.number.store(number, std::memory_order_relaxed);
  mine.barrier.store(barrier, std::memory_order_relaxed);
  mine.peer.store(peer, std::memory_order_relaxed);
  mine.word.store(&word, std::memory_order_release);
  std::optional<uint64_t> still;
  Waited waited = word.wait(seen, spin, hub->world.timeout(), [&] {
    std::optional<uint64_t> before = std::exchange(still, hub->idleState());
    return still && still == before;
  });
  if (waited == Waited::Late)
    failLate(ctx);
  mine.word.store(nullptr, std::memory_order_release);
  mine.ended.store(mine.ended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (waited == Waited::Stopped)
    throw RankStopped();
  if (waited == Waited::Left)
    fail(ctx, std::string("waits in a ") + where + " for " +
                  hub->describeLeft(barrier ? std::span<const int>(barrier->ranks)
                                            : std::span<const int>(&peer, 1)) +
                  ", which has ended");
}

/// All ranks are in this process, so each can describe the state of all.
void ThreadsTransport::failLate(tpc_context &ctx) {
  World &world = hub->world;
  auto describe = [&](int other) {
    std::vector<int> awaited;
    return hub->findAwaited(other, awaited)
               ? world.describeWait(other, world.local(other).activity, awaited)
               : world.describeWait(other, nullptr, awaited);
  };
  std::string message = world.describeTimeout() + ": " + describe(rank);
  for (int other = 0; other < world.size(); ++other)
    if (other != rank)
      message += "; " + describe(other);
  fail(ctx, message);
}

void ThreadsTransport::arriveAndWait(tpc_context &ctx, Barrier &barrier) {
  uint32_t collective = barrier.rounds.count();
  int members = static_cast<int>(barrier.slots.size());
  if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < members)
    return wait(ctx, barrier.rounds, collective, &barrier, -1, "collective");
  barrier.arrived.store(0, std::memory_order_relaxed);
  // Members that arrived earlier may have been stopped while they waited; their published data is
  // then invalid.
  if (!barrier.rounds.advanceUnlessStopped())
    throw RankStopped();
}

void ThreadsTransport::arriveAndWaitAgain(Barrier &barrier) {
  // Between two barriers of one collective, members only copy: all of them arrive, even if another
  // rank of the world has failed meanwhile. Leaving early would free tensors that others still
  // read.
  uint32_t collective = barrier.rounds.count();
  int members = static_cast<int>(barrier.slots.size());
  if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < members)
    return barrier.rounds.waitRegardless(collective, spin);
  barrier.arrived.store(0, std::memory_order_relaxed);
  barrier.rounds.advance();
}

void ThreadsTransport::allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                 tpc_reduction reduction, const void *in, void *out,
                                 int64_t count) {
  int64_t size = sizeOf(dtype), bytes = count * size;
  int members = group.size();
  if (hub->delay.isSet())
    return finish(ctx, startAllReduce(ctx, group, dtype, reduction, in, out, count));
  if (bytes <= stateIn(group).barrier->stageBytes) {
    CollectiveScope collective(*this, ctx, group, in, nullptr, bytes, bytes);
    reduce(dtype, reduction, out, collective.inputs(0), members, count);
    return collective.end();
  }

  // Each member reduces one chunk of whole cache lines and writes it to all outputs. Only member c
  // reads chunk c of the inputs, before it writes chunk c of the outputs, so `in` may be `out`.
  CollectiveScope collective(*this, ctx, group, in, out, bytes, bytes);
  int64_t line = 64 / size;
  Part lines = partOf((count + line - 1) / line, members, group.index);
  int64_t end = std::min((lines.offset + lines.size) * line, count);
  int64_t block = (32 << 10) / size; // stays in the L1 cache until it is written to all outputs
  for (int64_t at = lines.offset * line; at < end; at += block) {
    int64_t some = std::min(block, end - at);
    char *mine = static_cast<char *>(out) + at * size;
    reduce(dtype, reduction, mine, collective.inputs(at * size), members, some);
    for (int member = 0; member < members; ++member)
      if (member != group.index)
        std::memcpy(static_cast<char *>(collective[member].out) + at * size, mine,
                    static_cast<size_t>(some * size));
  }
  collective.end();
}

void ThreadsTransport::allGather(tpc_context &ctx, const Group &group, const void *in, void *out,
                                 int64_t outer, int64_t n, int64_t inner) {
  // The first shard of a balanced split is the largest.
  int64_t row = outer * inner, largest = row * group.part(n, 0).size;
  CollectiveScope collective(*this, ctx, group, in, nullptr, row * group.part(n, group.index).size,
                             largest);
  for (int member = 0; member < group.size(); ++member) {
    Part part = group.part(n, member);
    copyIntoWhole(out, collective[member].in, outer, n, part.offset, part.size, inner);
  }
  collective.end();
}

void ThreadsTransport::reduceScatter(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                     tpc_reduction reduction, const void *in, void *out,
                                     int64_t outer, int64_t n, int64_t inner) {
  int64_t size = sizeOf(dtype), bytes = outer * n * inner * size;
  Part mine = group.part(n, group.index);
  CollectiveScope collective(*this, ctx, group, in, nullptr, bytes, bytes);
  int64_t run = mine.size * inner;
  for (int64_t o = 0; o < outer && run; ++o)
    reduce(dtype, reduction, static_cast<char *>(out) + o * run * size,
           collective.inputs((o * n + mine.offset) * inner * size), group.size(), run);
  collective.end();
}

void ThreadsTransport::allToAll(tpc_context &ctx, const Group &group, const void *in, void *out,
                                const AllToAllShape &shape) {
  moveBlocks(ctx, group, in, out, AllToAll(group, shape));
}

void ThreadsTransport::collectivePermute(tpc_context &ctx, const Group &group, const void *in,
                                         void *out, const PermuteShape &shape) {
  moveBlocks(ctx, group, in, out, BlockMove(ctx.grid, group, shape));
}

void ThreadsTransport::exchange(tpc_context &ctx, const Group &group, const void *in, void *out,
                                const ExchangeShape &shape) {
  moveBlocks(ctx, group, in, out, Exchange(ctx.grid, group, shape));
}

template <typename BlockSource>
void ThreadsTransport::moveBlocks(tpc_context &ctx, const Group &group, const void *in, void *out,
                                  const BlockSource &blockSource) {
  CollectiveScope collective(*this, ctx, group, in, nullptr, blockSource.inBytes(group.index),
                             blockSource.largest());
  for (int member = 0; member < group.size(); ++member)
    blockSource.tensorBlock(member, group.index).copyThrough(out, collective[member].in);
  collective.end();
}

void ThreadsTransport::broadcast(tpc_context &ctx, const Group &group, void *data, int64_t bytes,
                                 int root) {
  bool isRoot = group.index == root;
  CollectiveScope collective(*this, ctx, group, data, nullptr, isRoot ? bytes : 0, bytes);
  if (!isRoot)
    std::memcpy(data, collective[root].in, static_cast<size_t>(bytes));
  collective.end();
}

Channel &ThreadsTransport::Channels::with(Hub &hub, int from, int to, int peer) {
  if (byPeer.empty())
    byPeer.resize(hub.world.size());
  if (!byPeer[peer])
    byPeer[peer] = &hub.channel(posts, from, to);
  return *byPeer[peer];
}

void ThreadsTransport::send(tpc_context &ctx, int peer, const void *data, int64_t bytes) {
  put(ctx, sending.with(*hub, rank, peer, peer), peer, data, bytes);
}
void ThreadsTransport::post(tpc_context &ctx, int peer, const void *data, int64_t bytes) {
  put(ctx, posting.with(*hub, rank, peer, peer), peer, data, bytes);
}
void ThreadsTransport::recv(tpc_context &ctx, int peer, void *data, int64_t bytes) {
  get(ctx, receiving.with(*hub, peer, rank, peer), peer, data, bytes);
}
void ThreadsTransport::take(tpc_context &ctx, int peer, void *data, int64_t bytes) {
  get(ctx, taking.with(*hub, peer, rank, peer), peer, data, bytes);
}

void ThreadsTransport::put(tpc_context &ctx, Channel &channel, int peer, const void *data,
                           int64_t bytes) {
  uint32_t index = channel.sent.count(), received = channel.received.count();
  while (((index - received) & WaitWord::countMask) >= channel.slots.size()) {
    wait(ctx, channel.received, received, nullptr, peer, "send");
    received = channel.received.count();
  }
  Channel::Slot &slot = channel.slots[index % channel.slots.size()];
  // Allocates even if not needed now, so that a later step with other timing does not allocate.
  if (slot.data.size() < static_cast<size_t>(bytes))
    slot.data.resize(static_cast<size_t>(bytes));
  slot.bytes = bytes;
  // The receiver's waiting buffer is for its next message, which is this one only if no message is
  // in flight.
  void *to = received == index ? channel.receiverBuffer.exchange(nullptr) : nullptr;
  if (to && channel.receiverBytes.load() == bytes)
    slot.bytes = Channel::delivered;
  else
    to = slot.data.data(); // the receiver reports a wrong size
  std::memcpy(to, data, static_cast<size_t>(bytes));
  channel.sent.advance();
}

void ThreadsTransport::get(tpc_context &ctx, Channel &channel, int peer, void *data,
                           int64_t bytes) {
  uint32_t index = channel.received.count();
  if (channel.sent.count() == index) {
    channel.receiverBytes.store(bytes);
    channel.receiverBuffer.store(data);
    try {
      wait(ctx, channel.sent, index, nullptr, peer, "receive");
    } catch (...) {
      // A sender that has taken the buffer writes to it without waiting.
      if (!channel.receiverBuffer.exchange(nullptr))
        channel.sent.waitRegardless(index, spin);
      throw;
    }
    channel.receiverBuffer.store(nullptr);
  }
  Channel::Slot &slot = channel.slots[index % channel.slots.size()];
  if (slot.bytes != Channel::delivered) {
    if (slot.bytes != bytes)
      fail(ctx, "rank " + std::to_string(peer) + " sends " + std::to_string(slot.bytes) +
                    " bytes where " + std::to_string(bytes) + " are expected");
    std::memcpy(data, slot.data.data(), static_cast<size_t>(bytes));
  }
  channel.received.advance();
}

void ThreadsTransport::barrier(tpc_context &ctx) {
  const Group &group = ctx.group(ctx.grid.allAxes());
  if (group.size() > 1)
    arriveAndWait(ctx, *stateIn(group).barrier);
}

void ThreadsTransport::gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                                   std::vector<std::vector<std::byte>> &gathered) {
  const Group &group = ctx.group(ctx.grid.allAxes());
  auto take = [&](int member, const void *from, int64_t size) {
    gathered[member].resize(static_cast<size_t>(size));
    if (size)
      std::memcpy(gathered[member].data(), from, static_cast<size_t>(size));
  };
  if (rank == 0)
    gathered.resize(group.size());
  if (group.size() == 1)
    return take(0, data, bytes);
  // The maximum size is unknown, so staging buffers are not used.
  CollectiveScope collective(*this, ctx, group, data, nullptr, bytes, INT64_MAX);
  bool enough = true;
  try {
    for (int member = 0; rank == 0 && member < group.size(); ++member)
      take(member, collective[member].in, collective[member].bytes);
  } catch (const std::exception &) {
    enough = false; // the others wait for the end of the collective
  }
  collective.end();
  if (!enough)
    fail(ctx, "out of memory while outputs were gathered");
}

void ThreadsTransport::abortWorld(int, const std::string &) { hub->stop(); }

std::unique_ptr<Transport> Hub::makeTransport(int rank) {
  return std::make_unique<ThreadsTransport>(shared_from_this(), rank);
}

std::shared_ptr<LocalRanks> joinThreads(World &world) { return std::make_shared<Hub>(world); }

} // namespace tpc::rt
