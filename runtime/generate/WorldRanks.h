//===- WorldRanks.h - Sampling collectives over all ranks of a world ------===//

#ifndef TPC_RT_GENERATE_WORLDRANKS_H
#define TPC_RT_GENERATE_WORLDRANKS_H

#include "core/Context.h"
#include "generate/Sampler.h"
#include <string>

namespace tpc::rt {

/// Collectives of one rank, called on its thread. The ranks of the last pipeline stage sample,
/// including those without logits, so that no rank of the stage needs a message with the result.
/// Tokens are then sent to earlier stages, which receive them when needed. Numbers are in host
/// memory.
class WorldRanks : public SamplerRanks {
public:
  /// `pipelineAxis`: index in the grid's order, or -1.
  WorldRanks(tpc_context &ctx, int pipelineAxis = -1);
  int size() const override { return group.size(); }
  void largest(std::span<int64_t> values) override;
  void sum(std::span<int64_t> values) override;
  void gather(std::span<const int64_t> mine, std::span<int64_t> all) override;

  /// Whether this rank samples.
  bool isLastStage() const { return stage == std::ssize(stages) - 1; }
  /// The last stage sends without blocking; earlier stages receive the same number of values.
  void sendToEarlier(std::span<const int64_t> numbers);
  void receiveFromLast(std::span<int64_t> numbers);
  /// At the end, waits until earlier stages have received all messages.
  void flush();
  /// Broadcasts a text of rank 0.
  void broadcast(std::string &text);

private:
  void reduce(std::span<int64_t> values, tpc_reduction reduction);
  void broadcastBytes(std::span<std::byte> bytes);

  tpc_context &ctx;
  Transport &transport;
  const Group &group;
  int stage = 0;
  std::vector<int> stages; ///< ranks with the same coordinates on other axes, by stage
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_WORLDRANKS_H
