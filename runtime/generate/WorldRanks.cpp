//===- WorldRanks.cpp - sampling among all ranks of a world ---------------===//

#include "generate/WorldRanks.h"
#include "core/Transport.h"

namespace tpc::rt {

WorldRanks::WorldRanks(tpc_context &ctx)
    : ctx(ctx), transport(ctx.transport->onHost()), group(ctx.group(ctx.grid.allAxes())) {}

void WorldRanks::reduce(std::span<int64_t> values, tpc_reduction reduction) {
  if (size() == 1 || values.empty())
    return;
  ctx.counters.add(CollectiveKind::AllReduce, samplingAxes,
                   static_cast<int64_t>(values.size_bytes()));
  Doing doing(ctx.activity, "the choice of tokens", 0);
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
  Doing doing(ctx.activity, "the choice of tokens", 0);
  transport.allGather(ctx, group, mine.data(), all.data(), 1, std::ssize(all), sizeof(int64_t));
}

void WorldRanks::broadcast(void *data, int64_t bytes) {
  ctx.counters.add(CollectiveKind::Broadcast, samplingAxes, bytes);
  Doing doing(ctx.activity, "requests", 0);
  transport.broadcast(ctx, group, data, bytes, 0);
}

void WorldRanks::broadcast(std::string &text) {
  if (size() == 1)
    return;
  auto bytes = std::ssize(text);
  broadcast(&bytes, sizeof(bytes));
  if (bytes == 0) {
    text.clear();
    return;
  }
  text.resize(static_cast<size_t>(bytes));
  broadcast(text.data(), bytes);
}

} // namespace tpc::rt
