//===- Context.cpp - State of one rank ------------------------------------===//

#include "core/Context.h"
#include "core/HostMemory.h"
#include "core/Step.h"
#include "core/Transport.h"
#include "core/World.h"

using namespace tpc::rt;

RankState::~RankState() = default;
OutputSink::~OutputSink() = default;

Transport::~Transport() = default;
bool Transport::isOnDevice() const { return false; }
void Transport::connect(tpc_context &) {}
void Transport::disconnect(tpc_context &) {}
int32_t Transport::startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                  tpc_reduction reduction, const void *in, void *out,
                                  int64_t count) {
  allReduce(ctx, group, dtype, reduction, in, out, count);
  return 0;
}
void Transport::finish(tpc_context &, int32_t) {}
void Transport::post(tpc_context &ctx, int peer, const void *data, int64_t bytes) {
  if (&onHost() != this)
    onHost().post(ctx, peer, data, bytes);
}
void Transport::take(tpc_context &ctx, int peer, void *data, int64_t bytes) {
  if (&onHost() != this)
    onHost().take(ctx, peer, data, bytes);
}
void Transport::flushPosts(tpc_context &ctx) {
  if (&onHost() != this)
    onHost().flushPosts(ctx);
}

void Transport::exchangeMessages(tpc_context &ctx, const Group &group, const char *, void *memory,
                                 std::span<const GroupMessage> sent,
                                 std::span<const GroupMessage> received) {
  auto *begin = static_cast<std::byte *>(memory);
  for (const auto &[member, offset, bytes] : sent)
    if (bytes)
      post(ctx, group.ranks[member], begin + offset, bytes);
  for (const auto &[member, offset, bytes] : received)
    if (bytes)
      take(ctx, group.ranks[member], begin + offset, bytes);
}

void Transport::largest(tpc_context &ctx, std::span<int32_t> values) {
  allReduce(ctx, ctx.group(ctx.grid.allAxes()), TPC_I32, TPC_MAX, values.data(), values.data(),
            static_cast<int64_t>(values.size()));
}
std::optional<Transport::DeviceWait> Transport::deviceWait() { return std::nullopt; }
uint64_t Transport::deviceMoves() { return 0; }
std::string Transport::deviceProblem() { return ""; }
void Transport::abortDevice() {}

tpc_context::tpc_context(World &world, const Grid &grid, int rank, int threadsPerRank)
    : world(world), grid(grid), rank(rank), threadsPerRank(threadsPerRank),
      coordinates(grid.coordinatesOf(rank)), device(deviceKind().make(*this)),
      arena(device->frames()), steps(std::make_unique<StepCache>(*this)),
      hostArena(device->isHost() ? nullptr : std::make_unique<Arena>(hostMemory())) {}

tpc_context::~tpc_context() = default;

const Group &tpc_context::group(uint32_t axes) {
  auto it = groups.find(axes);
  if (it == groups.end())
    it = groups.emplace(axes, grid.groupOf(rank, axes)).first;
  return it->second;
}
