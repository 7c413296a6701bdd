//===- Collectives.cpp - Communication functions of the ABI ---------------===//
//
// These functions check arguments, handle empty tensors and groups of one, count the communication,
// and pass the rest to the transport. All members of a group call with the same sizes, so all take
// the same branches here.
//
//===----------------------------------------------------------------------===//

#include "core/Access.h"
#include "core/BlockMove.h"
#include "core/Context.h"
#include "core/DType.h"
#include "core/Exchange.h"
#include "core/Layout.h"
#include "core/Reduce.h"
#include "tpc/async.h"
#include <initializer_list>

using namespace tpc::rt;

namespace {

[[noreturn]] void failIn(tpc_context &ctx, CollectiveKind kind, uint32_t axes,
                         const std::string &what) {
  fail(ctx, std::string(spell(kind)) + " over '" + ctx.grid.label(axes) + "': " + what);
}

/// Returns the bytes of a tensor. Fails if a size is negative or the number of bytes overflows.
int64_t bytesOf(tpc_context &ctx, CollectiveKind kind, uint32_t axes, int32_t dtype,
                std::initializer_list<int64_t> sizes) {
  int64_t bytes = sizeOf(dtype);
  if (!bytes)
    failIn(ctx, kind, axes, "unknown element type " + std::to_string(dtype));
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0)
      failIn(ctx, kind, axes, "negative size " + std::to_string(size));
    empty |= size == 0;
  }
  if (empty)
    return 0;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      failIn(ctx, kind, axes, "the tensor's size does not fit into 64 bits");
  return bytes;
}

const Group &groupOf(tpc_context &ctx, CollectiveKind kind, uint32_t axes) {
  if (axes & ~ctx.grid.allAxes())
    failIn(ctx, kind, axes,
           "the grid has " + std::to_string(ctx.grid.numAxes()) + " axes, the mask is " +
               std::to_string(axes));
  return ctx.group(axes);
}

void checkReduction(tpc_context &ctx, CollectiveKind kind, uint32_t axes, int32_t dtype,
                    int32_t reduction) {
  if (!canReduce(dtype, reduction))
    failIn(ctx, kind, axes,
           "cannot reduce elements of type " + std::string(spellType(dtype)) + " by reduction " +
               std::to_string(reduction) +
               " (sum, max and min of floats, i32 and i64 are possible)");
}

void copyUnlessInPlace(tpc_context &ctx, void *out, const void *in, int64_t bytes) {
  if (out != in)
    ctx.device->copy(out, in, bytes);
}

/// Returns the world rank whose coordinate on `axis` is `peer`, and whose other coordinates are
/// those of this rank.
int peerRank(tpc_context &ctx, const char *what, int32_t axis, int64_t peer) {
  const auto &axes = ctx.grid.axes();
  if (axis < 0 || axis >= ctx.grid.numAxes())
    fail(ctx, std::string(what) + ": the grid has no axis " + std::to_string(axis));
  if (peer < 0 || peer >= axes[axis].size)
    fail(ctx, std::string(what) + " over '" + axes[axis].name + "': there is no coordinate " +
                  std::to_string(peer) + " on an axis of size " + std::to_string(axes[axis].size));
  if (peer == ctx.coordinates[axis])
    fail(ctx, std::string(what) + " over '" + axes[axis].name + "': the peer is the rank itself");
  int64_t stride = 1;
  for (int32_t i = 0; i < axis; ++i)
    stride *= axes[i].size;
  return static_cast<int>(ctx.rank + (peer - ctx.coordinates[axis]) * stride);
}

} // namespace

extern "C" void tpc_at(tpc_context *ctx, int32_t node) {
  if (node < 0 || !ctx->code || node >= ctx->code->num_nodes)
    fail(*ctx, "internal error: there is no node " + std::to_string(node));
  ctx->activity.setNode(ctx->code->nodes[node]);
}

extern "C" void tpc_all_reduce(tpc_context *ctx, uint32_t axes, int32_t dtype, int32_t reduction,
                               const void *in, void *out, int64_t count) {
  constexpr auto kind = CollectiveKind::AllReduce;
  const Group &group = groupOf(*ctx, kind, axes);
  int64_t bytes = bytesOf(*ctx, kind, axes, dtype, {count});
  checkReduction(*ctx, kind, axes, dtype, reduction);
  if (bytes == 0)
    return;
  if (group.size() == 1)
    return copyUnlessInPlace(*ctx, out, in, bytes);
  ctx->counters.add(kind, axes, bytes);
  Transport &transport = ctx->transport->forReduction(tpc_dtype(dtype), tpc_reduction(reduction));
  Transfer transfer(*ctx, transport, spell(kind), axes);
  void *host = in == out ? transfer.update(out, bytes) : transfer.write(out, bytes);
  transport.allReduce(*ctx, group, tpc_dtype(dtype), tpc_reduction(reduction),
                      in == out ? host : transfer.read(in, bytes), host, count);
}

extern "C" int32_t tpc_all_reduce_start(tpc_context *ctx, uint32_t axes, int32_t dtype,
                                        int32_t reduction, const void *in, void *out,
                                        int64_t count) {
  constexpr auto kind = CollectiveKind::AllReduce;
  const Group &group = groupOf(*ctx, kind, axes);
  int64_t bytes = bytesOf(*ctx, kind, axes, dtype, {count});
  checkReduction(*ctx, kind, axes, dtype, reduction);
  if (bytes == 0)
    return 0;
  if (group.size() == 1) {
    copyUnlessInPlace(*ctx, out, in, bytes);
    return 0;
  }
  ctx->counters.add(kind, axes, bytes);
  Transport &transport = ctx->transport->forReduction(tpc_dtype(dtype), tpc_reduction(reduction));
  // Memory that is mapped only during this call cannot be in flight.
  if (transport.isOnDevice() || ctx->device->isSynchronous()) {
    OperationScope doing(ctx->activity, spell(kind), axes);
    return transport.startAllReduce(*ctx, group, tpc_dtype(dtype), tpc_reduction(reduction), in,
                                    out, count);
  }
  Transfer transfer(*ctx, transport, spell(kind), axes);
  void *host = in == out ? transfer.update(out, bytes) : transfer.write(out, bytes);
  transport.allReduce(*ctx, group, tpc_dtype(dtype), tpc_reduction(reduction),
                      in == out ? host : transfer.read(in, bytes), host, count);
  return 0;
}

extern "C" void tpc_wait(tpc_context *ctx, int32_t token) {
  if (token == 0)
    return;
  Access access(*ctx, ctx->transport->isOnDevice());
  ctx->transport->finish(*ctx, token);
}

extern "C" void tpc_all_gather(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in,
                               void *out, int64_t outer, int64_t n, int64_t inner) {
  constexpr auto kind = CollectiveKind::AllGather;
  const Group &group = groupOf(*ctx, kind, axes);
  int64_t bytes = bytesOf(*ctx, kind, axes, dtype, {outer, n, inner});
  if (bytes == 0)
    return;
  if (group.size() == 1)
    return copyUnlessInPlace(*ctx, out, in, bytes);
  ctx->counters.add(kind, axes, bytes);
  Transfer transfer(*ctx, spell(kind), axes);
  int64_t own = bytes / n * group.part(n, group.index).size;
  ctx->transport->allGather(*ctx, group, transfer.read(in, own), transfer.write(out, bytes), outer,
                            n, inner * sizeOf(dtype));
}

extern "C" void tpc_reduce_scatter(tpc_context *ctx, uint32_t axes, int32_t dtype,
                                   int32_t reduction, const void *in, void *out, int64_t outer,
                                   int64_t n, int64_t inner) {
  constexpr auto kind = CollectiveKind::ReduceScatter;
  const Group &group = groupOf(*ctx, kind, axes);
  int64_t bytes = bytesOf(*ctx, kind, axes, dtype, {outer, n, inner});
  checkReduction(*ctx, kind, axes, dtype, reduction);
  if (bytes == 0)
    return;
  if (group.size() == 1)
    return copyUnlessInPlace(*ctx, out, in, bytes);
  ctx->counters.add(kind, axes, bytes);
  Transport &transport = ctx->transport->forReduction(tpc_dtype(dtype), tpc_reduction(reduction));
  Transfer transfer(*ctx, transport, spell(kind), axes);
  int64_t own = bytes / n * group.part(n, group.index).size;
  transport.reduceScatter(*ctx, group, tpc_dtype(dtype), tpc_reduction(reduction),
                          transfer.read(in, bytes), transfer.write(out, own), outer, n, inner);
}

extern "C" void tpc_all_to_all(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in,
                               void *out, int64_t outer, int64_t a, int64_t middle, int64_t b,
                               int64_t inner, int32_t split_first) {
  constexpr auto kind = CollectiveKind::AllToAll;
  const Group &group = groupOf(*ctx, kind, axes);
  int64_t bytes = bytesOf(*ctx, kind, axes, dtype, {outer, a, middle, b, inner});
  if (bytes == 0)
    return;
  if (group.size() == 1)
    return copyUnlessInPlace(*ctx, out, in, bytes);
  // The buffer is this rank's input, which has only its shard of the gathered dimension.
  int64_t gathered = split_first ? b : a, split = split_first ? a : b;
  int64_t before = bytes / gathered * group.part(gathered, group.index).size;
  int64_t after = bytes / split * group.part(split, group.index).size;
  ctx->counters.add(kind, axes, before);
  Transfer transfer(*ctx, spell(kind), axes);
  ctx->transport->allToAll(*ctx, group, transfer.read(in, before), transfer.write(out, after),
                           {outer, a, middle, b, inner * sizeOf(dtype), split_first != 0});
}

extern "C" void tpc_collective_permute(tpc_context *ctx, const int32_t *splits, int32_t dtype,
                                       const void *in, void *out, int64_t outer, int64_t blocks,
                                       int64_t n, int64_t unit, int64_t inner, int64_t first) {
  constexpr auto kind = CollectiveKind::CollectivePermute;
  PermuteShape shape{outer, blocks, n, unit, inner * sizeOf(dtype), 0, {}, {}};
  uint32_t masks[2] = {0, 0};
  int side = 0;
  for (std::vector<int> *list :
       {&shape.in.part, &shape.in.product, &shape.out.part, &shape.out.product}) {
    for (; *splits >= 0; ++splits) {
      uint32_t &mask = masks[side / 2], bit = uint32_t(1) << *splits;
      if (*splits >= ctx->grid.numAxes() || (mask & bit))
        failIn(*ctx, kind, mask,
               "the grid's axis " + std::to_string(*splits) +
                   (mask & bit ? " is named twice" : " does not exist"));
      mask |= bit;
      list->push_back(*splits);
    }
    ++splits;
    ++side;
  }
  if (masks[0] != masks[1])
    failIn(*ctx, kind, masks[0] | masks[1], "the two sides are split over different axes");
  const Group &group = groupOf(*ctx, kind, masks[0]);
  if (bytesOf(*ctx, kind, masks[0], dtype, {outer, blocks, n, unit, inner}) == 0)
    return;
  int64_t run = n * unit;
  shape.first = (first % run + run) % run;
  BlockMove move(ctx->grid, group, shape);
  int64_t sent = move.maxSent();
  if (sent == 0 && !ctx->transport->isOnDevice()) {
    Access access(*ctx);
    return move.tensorBlock(group.index, group.index)
        .copyThrough(access.write(out, move.outBytes(group.index)),
                     access.read(in, move.inBytes(group.index)));
  }
  if (sent)
    ctx->counters.add(kind, masks[0], sent);
  Transfer transfer(*ctx, spell(kind), masks[0]);
  ctx->transport->collectivePermute(*ctx, group, transfer.read(in, move.inBytes(group.index)),
                                    transfer.write(out, move.outBytes(group.index)), shape);
}

extern "C" void tpc_exchange(tpc_context *ctx, const int32_t *layout, int32_t dtype, const void *in,
                             void *out, const int64_t *sizes) {
  constexpr auto kind = CollectiveKind::Exchange;
  uint32_t masks[2] = {0, 0};
  auto readAxes = [&](uint32_t &mask) {
    std::vector<int> axes;
    for (; *layout >= 0; ++layout) {
      uint32_t bit = *layout < ctx->grid.numAxes() ? uint32_t(1) << *layout : 0;
      if (!bit || (mask & bit))
        failIn(*ctx, kind, mask,
               "the grid's axis " + std::to_string(*layout) +
                   (bit ? " is named twice" : " does not exist"));
      mask |= bit;
      axes.push_back(*layout);
    }
    ++layout;
    return axes;
  };
  ExchangeShape shape{std::vector<ExchangeDim>(*layout++), sizeOf(dtype)};
  bool empty = false;
  int64_t bytes = shape.element;
  for (ExchangeDim &dim : shape.dims) {
    dim.factors.resize(*layout++);
    for (ExchangeFactor &factor : dim.factors) {
      factor.size = *sizes++;
      factor.before = readAxes(masks[0]);
      factor.after = readAxes(masks[1]);
      // Checks one dimension at a time, because the number of factors is unknown.
      empty |= bytesOf(*ctx, kind, masks[0] | masks[1], dtype, {factor.size}) == 0;
    }
    dim.before = readAxes(masks[0]);
    dim.after = readAxes(masks[1]);
  }
  uint32_t mask = masks[0] | masks[1];
  const Group &group = groupOf(*ctx, kind, mask);
  if (empty)
    return;
  for (const ExchangeDim &dim : shape.dims)
    for (const ExchangeFactor &factor : dim.factors)
      if (__builtin_mul_overflow(bytes, factor.size, &bytes))
        failIn(*ctx, kind, mask, "the tensor's size does not fit into 64 bits");
  Exchange exchange(ctx->grid, group, shape);
  int64_t maximum = exchange.maxBytes();
  if (maximum == 0 && !ctx->transport->isOnDevice()) {
    Access access(*ctx);
    return exchange.tensorBlock(group.index, group.index)
        .copyThrough(access.write(out, exchange.outBytes(group.index)),
                     access.read(in, exchange.inBytes(group.index)));
  }
  if (maximum)
    ctx->counters.add(kind, mask, maximum);
  Transfer transfer(*ctx, spell(kind), mask);
  ctx->transport->exchange(*ctx, group, transfer.read(in, exchange.inBytes(group.index)),
                           transfer.write(out, exchange.outBytes(group.index)), shape);
}

extern "C" void tpc_broadcast(tpc_context *ctx, uint32_t axes, int32_t dtype, void *data,
                              int64_t count, int64_t root) {
  constexpr auto kind = CollectiveKind::Broadcast;
  const Group &group = groupOf(*ctx, kind, axes);
  int64_t bytes = bytesOf(*ctx, kind, axes, dtype, {count});
  if (root < 0 || root >= group.size())
    failIn(*ctx, kind, axes,
           "there is no root " + std::to_string(root) + " in a group of " +
               std::to_string(group.size()));
  if (bytes == 0 || group.size() == 1)
    return;
  ctx->counters.add(kind, axes, bytes);
  Transfer transfer(*ctx, spell(kind), axes);
  // Buffers of ranks other than the root may be uninitialized.
  void *host = group.index == root ? transfer.update(data, bytes) : transfer.write(data, bytes);
  ctx->transport->broadcast(*ctx, group, host, bytes, static_cast<int>(root));
}

extern "C" void tpc_send(tpc_context *ctx, int32_t axis, int32_t dtype, const void *data,
                         int64_t count, int64_t peer) {
  int rank = peerRank(*ctx, "send", axis, peer);
  uint32_t axes = uint32_t(1) << axis;
  int64_t bytes = bytesOf(*ctx, CollectiveKind::Send, axes, dtype, {count});
  if (bytes == 0)
    return;
  ctx->counters.add(CollectiveKind::Send, axes, bytes);
  Transfer transfer(*ctx, "send", axes);
  ctx->transport->send(*ctx, rank, transfer.read(data, bytes), bytes);
}

extern "C" void tpc_recv(tpc_context *ctx, int32_t axis, int32_t dtype, void *data, int64_t count,
                         int64_t peer) {
  int rank = peerRank(*ctx, "recv", axis, peer);
  int64_t bytes = bytesOf(*ctx, CollectiveKind::Send, uint32_t(1) << axis, dtype, {count});
  if (bytes == 0)
    return;
  Transfer transfer(*ctx, "receive", uint32_t(1) << axis);
  ctx->transport->recv(*ctx, rank, transfer.write(data, bytes), bytes);
}
