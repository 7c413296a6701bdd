//===- MessageTransport.cpp - Collectives built from messages -------------===//

#include "transport/messages/MessageTransport.h"
#include "core/AllToAll.h"
#include "core/BlockMove.h"
#include "core/Context.h"
#include "core/DType.h"
#include "core/Diagnostic.h"
#include "core/Exchange.h"
#include "core/Layout.h"
#include "core/Reduce.h"
#include "core/World.h"
#include <algorithm>
#include <cstring>
#include <new>

namespace tpc::rt {

namespace {

// Tags separate kinds of messages only, because the program determines the order of the messages of
// one pair. MPI guarantees tags up to 32767.
uint32_t collectiveTag(const Group &group) { return group.axes & 0x3fff; }
constexpr uint32_t sendTag = 0x4000;
constexpr uint32_t worldTag = 0x4001;
constexpr uint32_t postTag = 0x4003;

/// Frame of host memory, for messages.
class Staging {
public:
  Staging(tpc_context &ctx, int64_t bytes)
      : ctx(ctx), frame(static_cast<std::byte *>(ctx.staging().push(bytes))) {
    if (!frame)
      fail(ctx, "out of memory for a message of " + std::to_string(bytes) + " bytes");
  }
  ~Staging() { ctx.staging().pop(frame); }
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  std::byte *operator+(int64_t offset) const { return frame + offset; }

private:
  tpc_context &ctx;
  std::byte *frame;
};

const std::byte *bytesAt(const void *data, int64_t offset) {
  return static_cast<const std::byte *>(data) + offset;
}
std::byte *bytesAt(void *data, int64_t offset) { return static_cast<std::byte *>(data) + offset; }

} // namespace

void MessageTransport::addSend(int peer, uint32_t tag, const void *data, int64_t bytes) {
  if (bytes)
    sends.push_back({const_cast<void *>(data), bytes, peer, static_cast<int32_t>(tag)});
}

void MessageTransport::addReceive(int peer, uint32_t tag, void *data, int64_t bytes) {
  if (bytes)
    receives.push_back({data, bytes, peer, static_cast<int32_t>(tag)});
}

void MessageTransport::carryOut(tpc_context &ctx) {
  while (!incomplete.empty())
    completeNext(ctx);
  try {
    deliver(messenger, watch, world.maySpin(), sends, receives);
  } catch (const MessengerError &error) {
    fail(ctx, error.what());
  } catch (const std::bad_alloc &) {
    fail(ctx, "out of memory while messages were sent");
  }
  sends.clear();
  receives.clear();
}

void MessageTransport::allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                 tpc_reduction reduction, const void *in, void *out,
                                 int64_t count) {
  int64_t size = sizeOf(dtype), bytes = count * size;
  int members = group.size(), me = group.index;
  uint32_t tag = collectiveTag(group);
  inputs.resize(members);
  if (delay.isSet())
    return finish(ctx, startAllReduce(ctx, group, dtype, reduction, in, out, count));

  // For few members and small tensors, each member sends its input to all others and reduces the
  // whole tensor itself, in one exchange instead of two.
  if (members <= 4 && bytes * members <= 32 << 10) {
    Staging staging(ctx, bytes * members);
    for (int member = 0; member < members; ++member) {
      inputs[member] = member == me ? in : staging + member * bytes;
      if (member != me) {
        addSend(group.ranks[member], tag, in, bytes);
        addReceive(group.ranks[member], tag, staging + member * bytes, bytes);
      }
    }
    carryOut(ctx);
    return reduce(dtype, reduction, out, inputs.data(), members, count);
  }

  // Member c reduces chunk c, then all members gather the chunks. Groups of more than 4 use one
  // chunk for each 64 KiB, at most one per member: the number of messages is chunks times members,
  // and messages cost more than members that reduce nothing. A member does not send its own chunk
  // of `in`, so `in` may be `out`.
  constexpr int64_t minChunk = 64 << 10; // bytes
  int64_t owners = members <= 4 ? members : std::clamp<int64_t>(bytes / minChunk, 1, members);
  auto chunk = [&](int member) {
    if (member >= owners)
      return Part{count * size, 0};
    Part part = partOf(count, owners, member);
    return Part{part.offset * size, part.size * size};
  };
  Part mine = chunk(me);
  {
    Staging staging(ctx, mine.size * members);
    for (int member = 0; member < members; ++member) {
      inputs[member] = member == me ? bytesAt(in, mine.offset) : staging + member * mine.size;
      if (member == me)
        continue;
      Part theirs = chunk(member);
      addSend(group.ranks[member], tag, bytesAt(in, theirs.offset), theirs.size);
      addReceive(group.ranks[member], tag, staging + member * mine.size, mine.size);
    }
    carryOut(ctx);
    reduce(dtype, reduction, bytesAt(out, mine.offset), inputs.data(), members, mine.size / size);
  }
  for (int member = 0; member < members; ++member) {
    if (member == me)
      continue;
    Part theirs = chunk(member);
    addSend(group.ranks[member], tag, bytesAt(out, mine.offset), mine.size);
    addReceive(group.ranks[member], tag, bytesAt(out, theirs.offset), theirs.size);
  }
  carryOut(ctx);
}

int32_t MessageTransport::startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                         tpc_reduction reduction, const void *in, void *out,
                                         int64_t count) {
  int64_t bytes = count * sizeOf(dtype);
  for (int member = 0; member < group.size(); ++member)
    if (member != group.index)
      try {
        messenger.post({const_cast<void *>(in), bytes, group.ranks[member],
                        static_cast<int32_t>(collectiveTag(group))});
      } catch (const std::bad_alloc &) {
        fail(ctx, "out of memory while messages were sent");
      } catch (const MessengerError &error) {
        fail(ctx, error.what());
      }
  int32_t token = 1;
  while (token <= static_cast<int32_t>(asyncOperations.size()) && asyncOperations[token - 1].group)
    ++token;
  if (token > static_cast<int32_t>(asyncOperations.size()))
    asyncOperations.emplace_back();
  if (delay.isSet())
    linkFree = delay.end(std::max(linkFree, LinkDelay::now()), bytes);
  asyncOperations[token - 1] = {&group, dtype, reduction, in, out, count, linkFree, false};
  incomplete.push_back(token);
  return token;
}

void MessageTransport::completeNext(tpc_context &ctx) {
  AsyncOperation &operation = asyncOperations[incomplete.front() - 1];
  const Group &group = *operation.group;
  int64_t bytes = operation.count * sizeOf(operation.dtype);
  int members = group.size();
  Staging staging(ctx, bytes * members);
  inputsOfOthers.clear();
  for (int member = 0; member < members; ++member)
    if (member != group.index)
      inputsOfOthers.push_back({staging + member * bytes, bytes, group.ranks[member],
                                static_cast<int32_t>(collectiveTag(group))});
  // The last operation in flight also waits until this rank's posted messages are delivered.
  if (incomplete.size() == 1)
    messenger.flushNext();
  try {
    deliver(messenger, watch, world.maySpin(), {}, inputsOfOthers);
  } catch (const MessengerError &error) {
    fail(ctx, error.what());
  } catch (const std::bad_alloc &) {
    fail(ctx, "out of memory while messages were sent");
  }
  LinkDelay::sleepUntil(operation.readyAt);
  asyncInputs.resize(members);
  for (int member = 0; member < members; ++member)
    asyncInputs[member] = member == group.index ? operation.in : staging + member * bytes;
  reduce(operation.dtype, operation.reduction, operation.out, asyncInputs.data(), members,
         operation.count);
  operation.isComplete = true;
  incomplete.pop_front();
}

void MessageTransport::finish(tpc_context &ctx, int32_t token) {
  AsyncOperation &operation = asyncOperations.at(token - 1);
  OperationScope doing(ctx.activity, spell(CollectiveKind::AllReduce), operation.group->axes);
  while (!operation.isComplete)
    completeNext(ctx);
  operation = {};
}

void MessageTransport::allGather(tpc_context &ctx, const Group &group, const void *in, void *out,
                                 int64_t outer, int64_t n, int64_t inner) {
  int members = group.size(), me = group.index;
  uint32_t tag = collectiveTag(group);
  // With outer = 1 the received shards are contiguous in the output.
  bool direct = outer == 1;
  Staging staging(ctx, direct ? 0 : outer * n * inner);
  Part mine = group.part(n, me);
  for (int member = 0; member < members; ++member) {
    if (member == me)
      continue;
    Part part = group.part(n, member);
    std::byte *to =
        direct ? bytesAt(out, part.offset * inner) : staging + outer * part.offset * inner;
    addSend(group.ranks[member], tag, in, outer * mine.size * inner);
    addReceive(group.ranks[member], tag, to, outer * part.size * inner);
  }
  carryOut(ctx);
  for (int member = 0; member < members; ++member) {
    Part part = group.part(n, member);
    if (member == me)
      copyIntoWhole(out, in, outer, n, part.offset, part.size, inner);
    else if (!direct)
      copyIntoWhole(out, staging + outer * part.offset * inner, outer, n, part.offset, part.size,
                    inner);
  }
}

void MessageTransport::reduceScatter(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                     tpc_reduction reduction, const void *in, void *out,
                                     int64_t outer, int64_t n, int64_t inner) {
  int members = group.size(), me = group.index;
  uint32_t tag = collectiveTag(group);
  int64_t row = inner * sizeOf(dtype);
  bool direct = outer == 1;
  Part mine = group.part(n, me);
  int64_t mineBytes = outer * mine.size * row;
  Staging outgoing(ctx, direct ? 0 : outer * n * row), incoming(ctx, mineBytes * members);
  inputs.resize(members);
  for (int member = 0; member < members; ++member) {
    Part part = group.part(n, member);
    const std::byte *from = bytesAt(in, part.offset * row);
    if (!direct) {
      std::byte *packed = outgoing + outer * part.offset * row;
      copyFromWhole(packed, in, outer, n, part.offset, part.size, row);
      from = packed;
    }
    inputs[member] = member == me ? from : incoming + member * mineBytes;
    if (member != me) {
      addSend(group.ranks[member], tag, from, outer * part.size * row);
      addReceive(group.ranks[member], tag, incoming + member * mineBytes, mineBytes);
    }
  }
  carryOut(ctx);
  reduce(dtype, reduction, out, inputs.data(), members, outer * mine.size * inner);
}

void MessageTransport::allToAll(tpc_context &ctx, const Group &group, const void *in, void *out,
                                const AllToAllShape &shape) {
  moveBlocks(ctx, group, in, out, AllToAll(group, shape));
}

void MessageTransport::collectivePermute(tpc_context &ctx, const Group &group, const void *in,
                                         void *out, const PermuteShape &shape) {
  moveBlocks(ctx, group, in, out, BlockMove(ctx.grid, group, shape));
}

void MessageTransport::exchange(tpc_context &ctx, const Group &group, const void *in, void *out,
                                const ExchangeShape &shape) {
  moveBlocks(ctx, group, in, out, Exchange(ctx.grid, group, shape));
}

template <typename BlockSource>
void MessageTransport::moveBlocks(tpc_context &ctx, const Group &group, const void *in, void *out,
                                  const BlockSource &blockSource) {
  int members = group.size(), me = group.index;
  uint32_t tag = collectiveTag(group);
  auto forEachPeer = [&](auto &&use) {
    for (int member = 0; member < members; ++member)
      if (member != me)
        use(member);
  };
  int64_t total = 0;
  forEachPeer([&](int member) {
    total += blockSource.bytesBetween(me, member) + blockSource.bytesBetween(member, me);
  });
  Staging staging(ctx, total);
  std::byte *at = staging + 0;
  forEachPeer([&](int member) {
    blockSource.tensorBlock(me, member).pack(at, in);
    int64_t bytes = blockSource.bytesBetween(me, member);
    addSend(group.ranks[member], tag, at, bytes);
    at += bytes;
  });
  std::byte *incoming = at;
  forEachPeer([&](int member) {
    int64_t bytes = blockSource.bytesBetween(member, me);
    addReceive(group.ranks[member], tag, at, bytes);
    at += bytes;
  });
  carryOut(ctx);
  blockSource.tensorBlock(me, me).copyThrough(out, in);
  at = incoming;
  forEachPeer([&](int member) {
    blockSource.tensorBlock(member, me).unpack(out, at);
    at += blockSource.bytesBetween(member, me);
  });
}

void MessageTransport::broadcast(tpc_context &ctx, const Group &group, void *data, int64_t bytes,
                                 int root) {
  uint32_t tag = collectiveTag(group);
  if (group.index != root)
    addReceive(group.ranks[root], tag, data, bytes);
  else
    for (int member = 0; member < group.size(); ++member)
      if (member != root)
        addSend(group.ranks[member], tag, data, bytes);
  carryOut(ctx);
}

void MessageTransport::send(tpc_context &ctx, int peer, const void *data, int64_t bytes) {
  addSend(peer, sendTag, data, bytes);
  carryOut(ctx);
}

void MessageTransport::recv(tpc_context &ctx, int peer, void *data, int64_t bytes) {
  addReceive(peer, sendTag, data, bytes);
  carryOut(ctx);
}

void MessageTransport::post(tpc_context &ctx, int peer, const void *data, int64_t bytes) {
  if (!bytes)
    return;
  try {
    messenger.post({const_cast<void *>(data), bytes, peer, postTag});
  } catch (const std::bad_alloc &) {
    fail(ctx, "out of memory while messages were sent");
  }
}

void MessageTransport::take(tpc_context &ctx, int peer, void *data, int64_t bytes) {
  addReceive(peer, postTag, data, bytes);
  carryOut(ctx);
}

void MessageTransport::flushPosts(tpc_context &ctx) {
  messenger.flushNext();
  carryOut(ctx);
}

void MessageTransport::barrier(tpc_context &ctx) {
  OperationScope doing(ctx.activity, "a barrier of all ranks", 0);
  // Every rank sends to every rank: worlds are small, and barriers occur only at start-up and
  // between measurements.
  char mine = 0;
  std::vector<char> theirs(world.size());
  for (int peer = 0; peer < world.size(); ++peer)
    if (peer != ctx.rank) {
      addSend(peer, worldTag, &mine, 1);
      addReceive(peer, worldTag, &theirs[peer], 1);
    }
  carryOut(ctx);
}

void MessageTransport::gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                                   std::vector<std::vector<std::byte>> &gathered) {
  OperationScope doing(ctx.activity, "the assembling of outputs", 0);
  if (ctx.rank != 0) {
    addSend(0, worldTag, &bytes, sizeof(bytes));
    carryOut(ctx);
    addSend(0, worldTag, data, bytes);
    return carryOut(ctx);
  }
  int ranks = world.size();
  try {
    std::vector<int64_t> sizes(ranks, bytes);
    for (int peer = 1; peer < ranks; ++peer)
      addReceive(peer, worldTag, &sizes[peer], sizeof(int64_t));
    carryOut(ctx);
    gathered.resize(ranks);
    for (int peer = 0; peer < ranks; ++peer) {
      gathered[peer].resize(static_cast<size_t>(sizes[peer]));
      if (peer)
        addReceive(peer, worldTag, gathered[peer].data(), sizes[peer]);
    }
  } catch (const std::bad_alloc &) {
    fail(ctx, "out of memory while outputs were gathered");
  }
  if (bytes)
    std::memcpy(gathered[0].data(), data, static_cast<size_t>(bytes));
  carryOut(ctx);
}

void MessageTransport::abortWorld(int, const std::string &message) {
  printDiagnostic("error", message);
  watch.failWorld();
  messenger.abort();
}

} // namespace tpc::rt
