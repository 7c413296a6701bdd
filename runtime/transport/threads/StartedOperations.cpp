//===- StartedOperations.cpp - Asynchronous collectives of threads --------===//
//
// A start publishes the member's tensors. When all members have started an operation, any of them
// can do the work for all: at its wait, a member claims block after block of the tensor, reduces
// it, and writes it to all outputs. A member that arrives early thus does not wait for the others,
// and one that arrives late finds the result. There is no progress thread, and no memory besides
// the tensors. Only the member that claims a block reads it, before it writes it, so an input may
// be the output. The inputs of an element are reduced in the order of ranks, by any member.
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"
#include "core/DType.h"
#include "core/Reduce.h"
#include "core/World.h"
#include "transport/threads/ThreadsTransport.h"
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace tpc::rt {

/// Bytes of a block, which stays in the L1 cache until it is in all outputs.
static constexpr int64_t blockBytes = 32 << 10;

bool StartedOperation::open(uint64_t number) {
  done.store(0, std::memory_order_relaxed);
  uint64_t before = claim.load();
  while (before != closed)
    if (claim.compare_exchange_weak(before, number << blockBits))
      return true;
  return false;
}

std::optional<int64_t> StartedOperation::claimBlock(uint64_t number, int64_t blocks) {
  uint64_t before = claim.load();
  while (before >> blockBits == number && int64_t(before & blockMask) < blocks)
    if (claim.compare_exchange_weak(before, before + 1))
      return int64_t(before & blockMask);
  return std::nullopt;
}

void StartedOperation::close() {
  uint64_t before = claim.exchange(closed);
  while (before != closed && done.load() < int64_t(before & blockMask))
    std::this_thread::yield();
}

int32_t ThreadsTransport::startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                         tpc_reduction reduction, const void *in, void *out,
                                         int64_t count) {
  GroupState &state = stateIn(group);
  Barrier &barrier = *state.barrier;
  uint64_t number = state.started++;
  StartedOperation &operation = barrier.operations[number % Barrier::maxInFlight];
  uint32_t round = uint32_t(number / Barrier::maxInFlight) & WaitWord::countMask;
  int32_t token = 1;
  while (token <= int32_t(tokens.size()) && tokens[token - 1].group)
    ++token;
  if (token > int32_t(tokens.size()))
    tokens.emplace_back();
  int64_t bytes = count * sizeOf(dtype);
  tokens[token - 1] = {&group, number, dtype, reduction, bytes};

  // The previous operation in this entry.
  while (operation.finished.count() != round)
    wait(ctx, operation.finished, operation.finished.count(), &barrier, -1, "collective",
         &operation, number);
  operation.members[group.index] = {in, out};
  operation.startedBy[group.index].store(number + 1, std::memory_order_release);
  int members = group.size();
  if (operation.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < members)
    return token;
  operation.arrived.store(0, std::memory_order_relaxed);
  // Starts complete in order, so only one member at a time is here.
  const LinkDelay &delay = hub->delay;
  if (delay.isSet())
    barrier.linkFree = operation.readyAt =
        delay.end(std::max(barrier.linkFree, LinkDelay::now()), bytes);
  if (!operation.open(number) || !operation.started.advanceUnlessStopped())
    throw RankStopped();
  return token;
}

void ThreadsTransport::finish(tpc_context &ctx, int32_t token) {
  StartedToken pending = std::exchange(tokens.at(token - 1), StartedToken());
  const Group &group = *pending.group;
  OperationScope doing(ctx.activity, spell(CollectiveKind::AllReduce), group.axes);
  Barrier &barrier = *stateIn(group).barrier;
  StartedOperation &operation = barrier.operations[pending.number % Barrier::maxInFlight];
  uint32_t round = uint32_t(pending.number / Barrier::maxInFlight) & WaitWord::countMask;
  if (operation.started.count() == round)
    wait(ctx, operation.started, round, &barrier, -1, "collective", &operation, pending.number);
  if (hub->delay.isSet())
    LinkDelay::sleepUntil(operation.readyAt);

  int members = group.size();
  int64_t blocks = (pending.bytes + blockBytes - 1) / blockBytes, size = sizeOf(pending.dtype);
  std::vector<const void *> &inputs = stateIn(group).pointers;
  while (std::optional<int64_t> block = operation.claimBlock(pending.number, blocks)) {
    int64_t at = *block * blockBytes;
    int64_t bytes = std::min(blockBytes, pending.bytes - at);
    for (int member = 0; member < members; ++member)
      inputs[member] = static_cast<const char *>(operation.members[member].in) + at;
    char *mine = static_cast<char *>(operation.members[group.index].out) + at;
    reduce(pending.dtype, pending.reduction, mine, inputs.data(), members, bytes / size);
    for (int member = 0; member < members; ++member)
      if (member != group.index)
        std::memcpy(static_cast<char *>(operation.members[member].out) + at, mine,
                    static_cast<size_t>(bytes));
    if (operation.done.fetch_add(1, std::memory_order_acq_rel) + 1 == blocks)
      operation.finished.advance();
  }
  // Other members may still work on the last blocks.
  if (operation.finished.count() == round)
    wait(ctx, operation.finished, round, &barrier, -1, "collective", &operation, pending.number);
}

} // namespace tpc::rt
