//===- RankLoop.h - Generation loop of one rank ---------------------------===//
//
// Runs the steps of the schedule, the same on all ranks. Slots form groups (Schedule.h). A step of
// a group needs the tokens of the group's previous step; with several groups, other groups run in
// between. The last stage samples as soon as it has logits, and earlier stages receive the tokens
// when they need them.
//
// If the device chooses the tokens and advances the inputs, further steps are launched before the
// tokens of earlier ones are read, so the device does not wait for the host. When a request ends,
// the launched steps are used for the other rows; steps without a row in use are dropped. They
// wrote to the caches only beyond the tokens of a sequence.
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
#include <tuple>

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
  std::optional<StepItem> nextItem(tpc_context &ctx);
  void putSources(Inputs &made, const StepItem &item) const;
  void moveWindows(tpc_context &ctx);
  void launchAhead(tpc_context &ctx, const StepItem &item);
  void dropAhead(tpc_context &ctx);
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
  /// Inputs by rows, tokens and source tokens of a step. Addresses must stay valid, because
  /// recorded steps contain them.
  std::map<std::tuple<int64_t, int64_t, int64_t>, Inputs> inputs;
  Inputs *nextInputs = nullptr;
  std::optional<StepItem> current; ///< next item of the schedule, not yet run
  std::deque<InFlightStep> inFlight;
  /// Steps that were launched ahead and not taken, the last taken step before them, and the number
  /// of rows that they sample; 0: no steps may be launched ahead.
  int64_t numAhead = 0;
  std::optional<StepItem> lastTaken;
  size_t rowsAhead = 0;
  std::vector<std::vector<std::byte>> gathered;
  TokenGenerator::Counts theCounts;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_RANKLOOP_H
