//===- WorldRanks.cpp - Sampling collectives over all ranks of a world ----===//

#include "generate/WorldRanks.h"
#include "core/Transport.h"

namespace tpc::rt {

static uint32_t axesOfStage(const tpc_context &ctx, int pipelineAxis) {
  uint32_t all = ctx.grid.allAxes();
  return pipelineAxis < 0 ? all : all & ~(uint32_t(1) << pipelineAxis);
}

WorldRanks::WorldRanks(tpc_context &ctx, int pipelineAxis)
    : ctx(ctx), transport(ctx.transport->onHost()),
      group(ctx.group(axesOfStage(ctx, pipelineAxis))), stages{ctx.rank} {
  if (pipelineAxis < 0)
    return;
  stage = static_cast<int>(ctx.coordinates[static_cast<size_t>(pipelineAxis)]);
  stages = ctx.group(uint32_t(1) << pipelineAxis).ranks;
}

void WorldRanks::reduce(std::span<int64_t> values, tpc_reduction reduction) {
  if (size() == 1 || values.empty())
    return;
  ctx.counters.add(CollectiveKind::AllReduce, samplingAxes,
                   static_cast<int64_t>(values.size_bytes()));
  OperationScope doing(ctx.activity, "sampling", 0);
  transport.allReduce(ctx, group, TPC_I64, reduction, values.data(), values.data(),
                      std::ssize(values));
}

void WorldRanks::largest(std::span<int64_t> values) { reduce(values, TPC_MAX); }
void WorldRanks::sum(std::span<int64_t> values) { reduce(values, TPC_SUM); }

void WorldRanks::gather(std::span<const int64_t> mine, std::span<int64_t> all) {
  if (size() == 1) {
    std::copy(mine.begin(), mine.end(), all.begin());
    return;
  }
  ctx.counters.add(CollectiveKind::AllGather, samplingAxes, static_cast<int64_t>(all.size_bytes()));
  OperationScope doing(ctx.activity, "sampling", 0);
  transport.allGather(ctx, group, mine.data(), all.data(), 1, std::ssize(all), sizeof(int64_t));
}

void WorldRanks::sendToEarlier(std::span<const int64_t> numbers) {
  OperationScope doing(ctx.activity, "the exchange of tokens", 0);
  for (size_t i = 0; i + 1 < stages.size(); ++i) {
    ctx.counters.add(CollectiveKind::Send, samplingAxes,
                     static_cast<int64_t>(numbers.size_bytes()));
    transport.post(ctx, stages[i], numbers.data(), static_cast<int64_t>(numbers.size_bytes()));
  }
}

void WorldRanks::receiveFromLast(std::span<int64_t> numbers) {
  OperationScope doing(ctx.activity, "sampling", 0);
  transport.take(ctx, stages.back(), numbers.data(), static_cast<int64_t>(numbers.size_bytes()));
}

void WorldRanks::flush() {
  if (stages.size() == 1 || !isLastStage())
    return;
  OperationScope doing(ctx.activity, "the exchange of tokens", 0);
  transport.flushPosts(ctx);
}

/// With pipeline stages this uses messages: a collective would synchronize the stages.
void WorldRanks::broadcastBytes(std::span<std::byte> bytes) {
  auto count = static_cast<int64_t>(bytes.size());
  if (stages.size() == 1)
    return transport.broadcast(ctx, group, bytes.data(), count, 0);
  if (ctx.rank != 0)
    return transport.recv(ctx, 0, bytes.data(), count);
  for (int rank = 1; rank < ctx.worldSize(); ++rank)
    transport.send(ctx, rank, bytes.data(), count);
}

void WorldRanks::broadcast(std::string &text) {
  if (ctx.worldSize() == 1)
    return;
  OperationScope doing(ctx.activity, "the broadcast of requests", 0);
  int64_t length = std::ssize(text);
  broadcastBytes(std::as_writable_bytes(std::span(&length, 1)));
  text.resize(static_cast<size_t>(length));
  if (length)
    broadcastBytes(std::as_writable_bytes(std::span(text)));
}

} // namespace tpc::rt
