//===- RankLoop.h - generation loop of one rank ---------------------------===//
//
// Runs the steps of the schedule, the same on all ranks. Slots form groups (Schedule.h). A step of
// a group needs the tokens of the group's previous step; with several groups, other groups run in
// between. The last stage samples as soon as it has logits, and earlier stages receive the tokens
// when they need them.
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
  /// Loop of one call of TokenGenerator::generate.
  RankLoop(const Manifest &manifest, GenerationLimits limits, const GenerationMode &mode);

  void add(GenerationRequest request) { schedule.add(std::move(request)); }
  /// Runs on the rank's thread. Returns false if the execution must be prepared for the sizes of
  /// next() before it continues. `client` is set on rank 0.
  bool run(tpc_context &ctx, Execution &execution, GenerationClient *client);
  const Inputs &next() const { return *nextInputs; }

  const TokenGenerator::Counts &counts() {
    theCounts.sampler = sampler.counts();
    return theCounts;
  }

private:
  struct InFlightStep {
    StepItem item;
    std::vector<int64_t> tokens; ///< on the last stage
  };
  void exchangeInput(GenerationClient *client);
  void readInput(const std::string &text);
  Inputs &inputsOf(const tpc_context &ctx, const StepItem &item);
  void moveWindows(tpc_context &ctx);
  void runItem(tpc_context &ctx, Execution &execution, GenerationClient *client);
  std::vector<int64_t> sample(tpc_context &ctx, const StepItem &item);
  void finishFirst(GenerationClient *client);
  void giveLogits(tpc_context &ctx, GenerationClient *client);
  void deliverEvents(GenerationClient *client);

  const Manifest &manifest;
  const Generation &generation;
  const GenerationLimits limits;
  const GenerationMode mode;
  Schedule schedule;
  Sampler sampler;
  LogitsSink sink;
  std::optional<Windows> windows;
  std::optional<WorldRanks> ranks;
  bool hasInput;
  uint64_t numRequests = 0; ///< requests received from the client
  /// Inputs by rows and tokens of a step. Addresses must stay valid, because recorded steps contain
  /// them.
  std::map<std::pair<int64_t, int64_t>, Inputs> inputs;
  Inputs *nextInputs = nullptr;
  std::optional<StepItem> current; ///< next item of the schedule, not yet run
  std::deque<InFlightStep> inFlight;
  std::vector<std::vector<std::byte>> gathered;
  TokenGenerator::Counts theCounts;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_RANKLOOP_H
