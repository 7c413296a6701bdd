//===- RankLoop.h - the loop that generates, of one rank ------------------===//
//
// Steps are run as the schedule has them, the same on all ranks. A step of a group needs the tokens
// of the group's last one; where there are several groups, others are run meanwhile: the last stage
// chooses the tokens as soon as it has logits, and earlier ones take them before they need them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_RANKLOOP_H
#define TPC_RT_GENERATE_RANKLOOP_H

#include "generate/Generator.h"
#include "generate/LogitsSink.h"
#include "generate/Schedule.h"
#include "generate/Windows.h"
#include "generate/WorldRanks.h"
#include <deque>
#include <map>
#include <utility>

namespace tpc::rt {

class RankLoop {
public:
  /// Of one call of TokenGenerator::generate.
  RankLoop(const Manifest &manifest, GenerationLimits limits, const GenerationMode &mode);

  void add(GenerationRequest request) { schedule.add(std::move(request)); }
  /// On the rank. False: the execution is to be prepared for the sizes of `next` before it goes on.
  /// `client`: on rank 0.
  bool run(tpc_context &ctx, Execution &execution, GenerationClient *client);
  const Inputs &next() const { return *nextInputs; }

  const TokenGenerator::Counts &counts() {
    theCounts.sampler = sampler.counts();
    return theCounts;
  }

private:
  struct Out {
    StepItem item;
    std::vector<int64_t> tokens; ///< on the last stage
  };
  void exchangeNews(GenerationClient *client);
  void takeNews(const std::string &text);
  Inputs &inputsOf(const tpc_context &ctx, const StepItem &item);
  void moveWindows(tpc_context &ctx);
  void runItem(tpc_context &ctx, Execution &execution, GenerationClient *client);
  std::vector<int64_t> choose(tpc_context &ctx, const StepItem &item);
  void finishFirst(GenerationClient *client);
  void giveLogits(tpc_context &ctx, GenerationClient *client);
  void tell(GenerationClient *client);

  const Manifest &manifest;
  const Generation &generation;
  const GenerationLimits limits;
  const GenerationMode mode;
  Schedule schedule;
  Sampler sampler;
  LogitsSink sink;
  std::optional<Windows> windows;
  std::optional<WorldRanks> ranks;
  bool hasNews;
  uint64_t numRequests = 0; ///< that were news
  /// By rows and tokens of a step: addresses stay, as what is recorded has them.
  std::map<std::pair<int64_t, int64_t>, Inputs> inputs;
  Inputs *nextInputs = nullptr;
  std::optional<StepItem> current; ///< taken, but not run
  std::deque<Out> out;
  std::vector<std::vector<std::byte>> gathered;
  TokenGenerator::Counts theCounts;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_RANKLOOP_H
