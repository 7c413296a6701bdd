//===- AutoShard.cpp - Choice of the grid for --megatron-shard=auto -------===//

#include "AutoShard.h"
#include "GridPlanner.h"
#include "RoutingFile.h"
#include "TpccOptions.h"

#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/MakeError.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::AutoShardPlan;
using ::tpc::AutoShardRequest;
using ::tpc::GridPlanner;
using ::tpc::Machine;

using mlir::tpc::makeError;

namespace tpc {
llvm::Expected<std::optional<AutoShardRequest>> checkAutoShard(TpccOptions &options) {
  if (options.megatronShard != kAutoShard) {
    for (auto [flag, given] : {std::pair("--devices", options.devices != 0),
                               {"--machine", !options.machine.empty() && !options.simulate},
                               {"--gpus-per-node", options.gpusPerNodeGiven},
                               {"--goal", !options.goal.empty()},
                               {"--search", !options.search.empty()},
                               {"--price", options.price != 0},
                               {"--memory", !options.memory.empty()}})
      if (given)
        return makeError(Twine(flag) + " is for --megatron-shard=auto" +
                         (StringRef(flag) == "--machine" ? " and --simulate"
                          : StringRef(flag) == "--gpus-per-node"
                              ? "; otherwise write gpus-per-node=N into --megatron-shard"
                              : ""));
    return std::nullopt;
  }
  AutoShardRequest request;
  if (options.devices == 0)
    return makeError("--megatron-shard=auto needs --devices=N, the number of devices");
  if (options.devices < 1 || options.devices > GridPlanner::maxDevices)
    return makeError("--devices=" + Twine(options.devices) + ": must be from 1 to " +
                     Twine(GridPlanner::maxDevices));
  if (options.gpusPerNodeGiven &&
      (options.gpusPerNode < 1 || options.gpusPerNode > GridPlanner::maxDevices))
    return makeError("--gpus-per-node=" + Twine(options.gpusPerNode) + ": must be from 1 to " +
                     Twine(GridPlanner::maxDevices));
  request.devices = options.devices;
  request.gpusPerNode = options.gpusPerNode;
  if (options.machine.empty())
    return makeError("--megatron-shard=auto needs --machine: a file of tpc-probe, or one of " +
                     llvm::join(Machine::getNames(), ", "));
  llvm::Expected<Machine> machine = Machine::load(options.machine);
  if (!machine)
    return makeError("--machine: " + llvm::toString(machine.takeError()));
  request.machine = std::move(*machine);
  if (options.goal == "throughput")
    request.goal = Goal::Throughput;
  else if (options.goal == "cost")
    request.goal = Goal::Cost;
  else if (!options.goal.empty() && options.goal != "latency")
    return makeError("--goal=" + options.goal + ": must be latency, throughput or cost");
  if (options.search == "exhaustive")
    request.isExhaustive = true;
  else if (!options.search.empty() &&
           (StringRef(options.search).getAsInteger(10, request.maxEvaluations) ||
            request.maxEvaluations < 1))
    return makeError("--search=" + options.search +
                     ": must be a number of grids, from 1, or exhaustive");
  if (options.price < 0 || options.price > 1e6 || std::isnan(options.price))
    return makeError(Twine("--price=") + llvm::formatv("{0:f2}", options.price).str() +
                     ": must be the price of a device for one hour, from 0 to 1000000");
  request.price = options.price > 0 ? options.price : request.machine.price;
  if (!options.memory.empty()) {
    std::string error;
    std::optional<int64_t> bytes = parseMemorySize(options.memory, error);
    if (!bytes)
      return makeError("--memory=" + options.memory + ": " + error);
    request.memory = *bytes;
    if (int64_t available = request.machine.getMemory(1); *bytes > available)
      return makeError("--memory=" + options.memory + ": a device of '" + request.machine.name +
                       "' has " + formatMemorySize(available));
  }
  for (auto [flag, given] : {std::pair("--annotations", !options.annotations.empty()),
                             {"--device-configuration", !options.deviceConfiguration.empty()},
                             {"--memory-plan", !options.memoryPlan.empty()},
                             {"--quantize", !options.quantize.empty()},
                             {"--links", !options.links.empty()},
                             {"--explain", options.explain},
                             {"--why", !options.why.empty()}})
    if (given)
      return makeError(Twine(flag) +
                       " cannot be combined with --megatron-shard=auto: choose a grid "
                       "of the plan, and name it instead of auto");
  if (options.output == "-" || (options.output.empty() && options.emitGiven))
    return makeError(
        "--megatron-shard=auto prints the plan to standard output: name a file with -o");
  if (options.shape.empty())
    return makeError("--megatron-shard=auto needs --shape, such as batch=1,sequence=128");
  const TargetTraits *target = TargetTraits::lookup(request.machine.target);
  if (!target)
    return makeError("--machine: '" + request.machine.name + "' has the target '" +
                     request.machine.target + "', which does not exist");
  if (!options.target.empty() && options.target != request.machine.target)
    return makeError("--target=" + options.target + ": the machine '" + request.machine.name +
                     "' is for " + request.machine.target);
  options.target = request.machine.target;
  if (!options.routing.empty()) {
    llvm::Expected<Routing> routing = readRouting(options.routing);
    if (!routing)
      return routing.takeError();
    request.routing = std::move(*routing);
  }
  return request;
}

FailureOr<AutoShardPlan> planAutoShard(ModuleOp model, const AutoShardRequest &request,
                                       const Symbols &symbols) {
  GridPlanner planner(model, request, symbols);
  FailureOr<SearchResult> search = planner.run();
  if (failed(search))
    return failure();
  AutoShardPlan plan{request, symbols, planner.generates(), std::move(*search)};
  if (!plan.fits())
    planner.findRemedies(plan);
  return plan;
}
} // namespace tpc
