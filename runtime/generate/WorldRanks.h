//===- WorldRanks.h - sampling among all ranks of a world -----------------===//

#ifndef TPC_RT_GENERATE_WORLDRANKS_H
#define TPC_RT_GENERATE_WORLDRANKS_H

#include "core/Context.h"
#include "generate/Sampler.h"
#include <string>

namespace tpc::rt {

/// One rank's, on its thread. Ranks without logits take part, so that what is chosen need not be
/// told to them. Numbers are in the host's memory.
class WorldRanks : public SamplerRanks {
public:
  explicit WorldRanks(tpc_context &ctx);
  int size() const override { return group.size(); }
  void largest(std::span<int64_t> values) override;
  void sum(std::span<int64_t> values) override;
  void gather(std::span<const int64_t> mine, std::span<int64_t> all) override;
  /// What rank 0 has.
  void broadcast(std::string &text);

private:
  void reduce(std::span<int64_t> values, tpc_reduction reduction);
  void broadcast(void *data, int64_t bytes);

  tpc_context &ctx;
  Transport &transport;
  const Group &group;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_WORLDRANKS_H
