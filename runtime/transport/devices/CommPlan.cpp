//===- CommPlan.cpp - Plans of collectives from calls on equal chunks -----===//

#include "transport/devices/CommPlan.h"
#include "core/AllToAll.h"
#include "core/BlockMove.h"
#include "core/DType.h"
#include "core/Exchange.h"

namespace tpc::rt {

namespace {

constexpr CommAddress inAt(int64_t offset) { return {CommMemory::In, offset}; }
constexpr CommAddress outAt(int64_t offset) { return {CommMemory::Out, offset}; }
constexpr CommAddress stageAt(int64_t offset) { return {CommMemory::Stage, offset}; }

/// Allocates space in the staging buffer. Offsets are aligned to 64 bytes, as collective libraries
/// prefer.
int64_t reserve(CommPlan &plan, int64_t bytes) {
  int64_t at = plan.stageBytes;
  plan.stageBytes = (at + bytes + 63) / 64 * 64;
  return at;
}

void add(std::vector<CommCopy> &list, CommAddress from, CommAddress to,
         const std::vector<StridedCopy> &copies) {
  for (const StridedCopy &copy : copies)
    list.push_back({{from.memory, from.offset + copy.from},
                    {to.memory, to.offset + copy.to},
                    copy.width,
                    copy.rows,
                    copy.fromStride,
                    copy.toStride});
}

bool isContiguous(const std::vector<StridedCopy> &copies) {
  return copies.size() == 1 && copies[0].rows == 1;
}

/// Range `part` of dimension n of a tensor [outer, n, inner], copied to or from a dense tensor.
struct Slice {
  int64_t outer, n, inner;
  Part part;

  int64_t bytes() const { return outer * part.size * inner; }
  CommCopy between(CommAddress whole, CommAddress block, bool intoBlock) const {
    int64_t width = part.size * inner;
    whole.offset += part.offset * inner;
    if (intoBlock)
      return {whole, block, width, outer, n * inner, width};
    return {block, whole, width, outer, width, n * inner};
  }
};

bool areEqual(const Group &group, int64_t n) {
  // The first shard is the largest, the last one the smallest.
  return group.part(n, 0).size == group.part(n, group.size() - 1).size;
}

/// Plans an exchange of tensor blocks.
template <typename BlockSource>
CommPlan planBlocks(const Group &group, const BlockSource &blockSource) {
  CommPlan plan;
  int me = group.index;
  add(plan.before, inAt(0), outAt(0),
      blockSource.tensorBlock(me, me).copies(TensorBlock::Source, TensorBlock::Target));
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == me)
      continue;
    if (TensorBlock sent = blockSource.tensorBlock(me, peer); int64_t bytes = sent.bytes()) {
      std::vector<StridedCopy> copies = sent.copies(TensorBlock::Source, TensorBlock::Message);
      CommAddress from = inAt(copies[0].from);
      if (!isContiguous(copies)) {
        from = stageAt(reserve(plan, bytes));
        add(plan.before, inAt(0), from, copies);
      }
      plan.calls.push_back({CommCall::Send, from, {}, bytes, TPC_U8, TPC_SUM, peer});
    }
    if (TensorBlock received = blockSource.tensorBlock(peer, me);
        int64_t bytes = received.bytes()) {
      std::vector<StridedCopy> copies = received.copies(TensorBlock::Message, TensorBlock::Target);
      CommAddress to = outAt(copies[0].to);
      if (!isContiguous(copies)) {
        to = stageAt(reserve(plan, bytes));
        add(plan.after, to, outAt(0), copies);
      }
      plan.calls.push_back({CommCall::Receive, {}, to, bytes, TPC_U8, TPC_SUM, peer});
    }
  }
  return plan;
}

/// Tensor blocks of an all-gather: all members' shards of [outer, n, inner].
struct Gathered {
  const Group &group;
  int64_t outer, n, inner;

  TensorBlock tensorBlock(int from, int) const {
    Part part = group.part(n, from);
    return TensorBlock({{{{0, 0, outer}}, part.size * inner, n * inner},
                        {{{0, part.offset, part.size}}, inner, inner}},
                       inner);
  }
};

} // namespace

CommPlan planAllReduce(tpc_dtype dtype, tpc_reduction reduction, int64_t count) {
  CommPlan plan;
  plan.calls = {{CommCall::AllReduce, inAt(0), outAt(0), count, dtype, reduction}};
  return plan;
}

CommPlan planAllGather(const Group &group, int64_t outer, int64_t n, int64_t inner) {
  if (!areEqual(group, n))
    return planBlocks(group, Gathered{group, outer, n, inner});
  CommPlan plan;
  int64_t bytes = outer * group.part(n, 0).size * inner;
  CommAddress to = outAt(0);
  if (outer > 1) {
    to = stageAt(reserve(plan, bytes * group.size()));
    for (int member = 0; member < group.size(); ++member)
      plan.after.push_back(Slice{outer, n, inner, group.part(n, member)}.between(
          outAt(0), stageAt(to.offset + member * bytes), /*intoBlock=*/false));
  }
  plan.calls = {{CommCall::AllGather, inAt(0), to, bytes}};
  return plan;
}

CommPlan planReduceScatter(const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                           int64_t outer, int64_t n, int64_t inner) {
  CommPlan plan;
  Slice mine{outer, n, inner, group.part(n, group.index)};
  int64_t bytes = outer * group.part(n, 0).size * inner; // size of the largest shard
  CommAddress from = inAt(0), to = outAt(0);
  if (outer > 1 || !areEqual(group, n)) {
    from = stageAt(reserve(plan, bytes * group.size()));
    for (int member = 0; member < group.size(); ++member) {
      Slice part{outer, n, inner, group.part(n, member)};
      CommAddress block = stageAt(from.offset + member * bytes);
      if (part.bytes())
        plan.before.push_back(part.between(inAt(0), block, /*intoBlock=*/true));
      // The padding is reduced too, and must therefore consist of valid numbers.
      if (int64_t rest = bytes - part.bytes())
        plan.fills.push_back({stageAt(block.offset + part.bytes()), rest});
    }
  }
  if (mine.bytes() != bytes) {
    to = stageAt(from.offset + group.index * bytes);
    if (int64_t size = mine.bytes())
      plan.after.push_back({to, outAt(0), size, 1, size, size});
  }
  plan.calls = {{CommCall::ReduceScatter, from, to, bytes / sizeOf(dtype), dtype, reduction}};
  return plan;
}

CommPlan planAllToAll(const Group &group, const AllToAllShape &shape) {
  return planBlocks(group, AllToAll(group, shape));
}

CommPlan planPermute(const Grid &grid, const Group &group, const PermuteShape &shape) {
  return planBlocks(group, BlockMove(grid, group, shape));
}

CommPlan planExchange(const Grid &grid, const Group &group, const ExchangeShape &shape) {
  return planBlocks(group, Exchange(grid, group, shape));
}

CommPlan planBroadcast(int64_t bytes, int root) {
  CommPlan plan;
  plan.calls = {{CommCall::Broadcast, outAt(0), outAt(0), bytes, TPC_U8, TPC_SUM, root}};
  return plan;
}

CommPlan planMessages(std::span<const Transport::GroupMessage> sent,
                      std::span<const Transport::GroupMessage> received) {
  CommPlan plan;
  for (const auto &[member, offset, bytes] : sent)
    if (bytes)
      plan.calls.push_back({CommCall::Send, inAt(offset), {}, bytes, TPC_U8, TPC_SUM, member});
  for (const auto &[member, offset, bytes] : received)
    if (bytes)
      plan.calls.push_back({CommCall::Receive, {}, outAt(offset), bytes, TPC_U8, TPC_SUM, member});
  return plan;
}

CommPlan planSend(int64_t bytes, int peer) {
  CommPlan plan;
  plan.isMessage = true;
  plan.calls = {{CommCall::Send, inAt(0), {}, bytes, TPC_U8, TPC_SUM, peer}};
  return plan;
}

CommPlan planReceive(int64_t bytes, int peer) {
  CommPlan plan;
  plan.isMessage = true;
  plan.calls = {{CommCall::Receive, {}, outAt(0), bytes, TPC_U8, TPC_SUM, peer}};
  return plan;
}

std::vector<CommPlan> planWarmUp(const Group &group) {
  constexpr int64_t size = 64;
  int64_t members = group.size();
  auto plan = [&](std::vector<CommCall> calls) {
    CommPlan plan;
    plan.stageBytes = 2 * members * size;
    plan.fills = {{stageAt(0), plan.stageBytes}};
    plan.calls = std::move(calls);
    return plan;
  };
  CommAddress from = stageAt(0), to = stageAt(members * size);
  int64_t count = size / sizeOf(TPC_F32);
  std::vector<CommCall> messages;
  for (int peer = 0; peer < members; ++peer)
    if (peer != group.index) {
      CommAddress sent = stageAt(peer * size), received = stageAt((members + peer) * size);
      messages.push_back({CommCall::Send, sent, {}, size, TPC_U8, TPC_SUM, peer});
      messages.push_back({CommCall::Receive, {}, received, size, TPC_U8, TPC_SUM, peer});
    }
  return {plan({{CommCall::AllReduce, from, to, count, TPC_F32}}),
          plan({{CommCall::AllGather, from, to, size}}),
          plan({{CommCall::ReduceScatter, from, to, count, TPC_F32}}),
          plan({{CommCall::Broadcast, from, from, size}}), plan(std::move(messages))};
}

} // namespace tpc::rt
