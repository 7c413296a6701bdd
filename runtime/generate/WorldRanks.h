//===- WorldRanks.h - sampling among all ranks of a world -----------------===//

#ifndef TPC_RT_GENERATE_WORLDRANKS_H
#define TPC_RT_GENERATE_WORLDRANKS_H

#include "core/Context.h"
#include "generate/Sampler.h"
#include <string>

namespace tpc::rt {

/// One rank's, on its thread. Tokens are chosen by the ranks of the last stage, also by those that
/// have no logits, so that none has to be told by another; then they go to earlier stages, each of
/// which takes them when it needs them. Numbers are in the host's memory.
class WorldRanks : public SamplerRanks {
public:
  /// `pipelineAxis`: of the grid's order, or -1.
  WorldRanks(tpc_context &ctx, int pipelineAxis = -1);
  int size() const override { return group.size(); }
  void largest(std::span<int64_t> values) override;
  void sum(std::span<int64_t> values) override;
  void gather(std::span<const int64_t> mine, std::span<int64_t> all) override;

  /// Whether this rank chooses.
  bool isLastStage() const { return stage == std::ssize(stages) - 1; }
  /// To be called by the last stage, which waits for nobody, and, for as many numbers, by the
  /// others.
  void sendToEarlier(std::span<const int64_t> numbers);
  void receiveFromLast(std::span<int64_t> numbers);
  /// At the end: until earlier stages need this rank no longer.
  void flush();
  /// What rank 0 has to say to all.
  void broadcast(std::string &text);

private:
  void reduce(std::span<int64_t> values, tpc_reduction reduction);
  void tell(std::span<std::byte> bytes);

  tpc_context &ctx;
  Transport &transport;
  const Group &group;
  int stage = 0;
  std::vector<int> stages; ///< ranks that are like this one otherwise, by stage
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_WORLDRANKS_H
