//===- Simulation.cpp - Simulation of a compiled program ------------------===//

#include "Simulation.h"
#include "AutoShard.h"
#include "RoutingFile.h"
#include "TpccOptions.h"

#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/MakeError.h"
#include "tpc/Dialect/State.h"
#include "tpc/Driver/PassPipelines.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Machine;
using ::tpc::ProgramSimulation;
using ::tpc::SimulatedGeneration;
using ::tpc::SimulatedStep;
using ::tpc::SimulationRequest;

/// Maximum number of simulated steps of a generation. The time of a step is about linear in the
/// number of keys, so the middle one stands for a range of steps.
static constexpr int64_t maxSamples = 16;

using mlir::tpc::makeError;

namespace tpc {
llvm::Expected<std::optional<SimulationRequest>> checkSimulation(TpccOptions &options) {
  bool page = StringRef(options.report).ends_with(".html");
  if (!options.simulate) {
    for (auto [flag, given] : {std::pair("--trace", !options.trace.empty()),
                               {"--report=FILE.html", page},
                               {"--max-new-tokens", options.newTokens != 0}})
      if (given)
        return makeError(Twine(flag) + " needs --simulate and --machine");
    return std::nullopt;
  }
  bool isAuto = options.megatronShard == kAutoShard;
  if (options.machine.empty())
    return makeError("--simulate needs --machine: a file of tpc-probe, or one of " +
                     llvm::join(Machine::getNames(), ", "));
  if (options.shape.empty())
    return makeError("--simulate needs --shape, such as batch=1,sequence=128");
  for (auto [flag, given] : {std::pair("--memory-plan", !options.memoryPlan.empty()),
                             {"--quantize", !options.quantize.empty()},
                             {"--explain", options.explain},
                             {"--why", !options.why.empty()},
                             {"--certificate", !options.certificate.empty()},
                             {"-o", !options.output.empty()},
                             {"--emit", options.emitGiven},
                             {"--megatron-shard=auto", isAuto && options.json}})
    if (given)
      return makeError(Twine("--simulate prints to standard output and writes no program; leave "
                             "out ") +
                       flag);
  if (options.newTokens < 0 || options.newTokens > (int64_t(1) << 20))
    return makeError("--max-new-tokens=" + Twine(options.newTokens) + ": must be from 1 to " +
                     Twine(int64_t(1) << 20));
  if (options.newTokens > 0 && options.generate == Generate::No)
    return makeError("--max-new-tokens needs --generate, a program that generates");
  SimulationRequest request;
  llvm::Expected<Machine> machine = Machine::load(options.machine);
  if (!machine)
    return makeError("--machine: " + llvm::toString(machine.takeError()));
  if (!options.target.empty() && options.target != machine->target)
    return makeError("--target=" + options.target + ": the machine '" + machine->name +
                     "' is for " + machine->target);
  if (!TargetTraits::lookup(machine->target))
    return makeError("--machine: '" + machine->name + "' has the target '" + machine->target +
                     "', which does not exist");
  options.target = machine->target;
  request.machine = std::move(*machine);
  request.newTokens = options.newTokens;
  if (!options.routing.empty()) {
    llvm::Expected<Routing> routing = readRouting(options.routing);
    if (!routing)
      return routing.takeError();
    request.routing = std::move(*routing);
  }
  return request;
}
} // namespace tpc

int64_t ProgramSimulation::getRanksOfStage() const {
  return spec.grid.numRanks() / int64_t(std::max<size_t>(1, report.stages.size()));
}

namespace {

/// Simulates steps of one lowered program.
class StepSimulator {
public:
  StepSimulator(ModuleOp staged, const SimulationRequest &request, ProgramSimulation &result)
      : staged(staged), request(request), result(result), grid(MeshAttr::lookup(staged)),
        lowered(staged.clone()) {}

  LogicalResult lower() {
    PassManager pm(staged.getContext());
    ::tpc::buildKernelsPassPipeline(pm);
    ::tpc::buildBuffersPassPipeline(pm);
    if (failed(pm.run(*lowered)))
      return failure();
    program.emplace(*lowered);
    return success();
  }
  FailureOr<StepCost> run(const Symbols &sizes, int64_t validKeys, SimulatedStep *step);
  LogicalResult addStep(StringRef name, const Symbols &sizes, int64_t validKeys);
  LogicalResult generate(const PreallocatedStep &step, const Symbols &shape);

private:
  ModuleOp staged;
  const SimulationRequest &request;
  ProgramSimulation &result;
  MeshAttr grid;
  OwningOpRef<ModuleOp> lowered;
  std::optional<LoweredProgram> program;
};

} // namespace

/// Simulates one step. Updates the memories of `result`, and its report if there is none. Sets
/// `step` if it is not null.
FailureOr<StepCost> StepSimulator::run(const Symbols &sizes, int64_t validKeys,
                                       SimulatedStep *step) {
  FailureOr<Report> report = computeReport(staged, sizes);
  if (failed(report))
    return failure();
  std::vector<RankMemory> memories = getStageMemories(*lowered, grid, *report, sizes);
  result.memories.resize(memories.size());
  for (auto [worst, memory] : llvm::zip(result.memories, memories))
    if (memory.getNeed() > worst.getNeed())
      worst = memory;
  StepEstimator estimator(*program, grid, sizes, request.machine, /*copies=*/1);
  estimator.validKeys = validKeys;
  if (request.routing) {
    if (failed(checkRouting(staged, sizes, *request.routing)) ||
        failed(applyRouting(staged, sizes, *request.routing, *report)))
      return failure();
    auto [selected, active] = getBusiestExperts(staged, grid, *request.routing);
    estimator.expertLoad = {selected, active};
  }
  llvm::Expected<StepCost> cost = estimator.run(*report, step ? &step->timeline : nullptr);
  if (!cost)
    return emitError(staged.getLoc()) << llvm::toString(cost.takeError());
  if (step)
    step->collectives = report->collectives;
  if (result.report.stages.empty())
    result.report = std::move(*report);
  return *cost;
}

LogicalResult StepSimulator::addStep(StringRef name, const Symbols &sizes, int64_t validKeys) {
  SimulatedStep step;
  step.name = name.str();
  FailureOr<StepCost> cost = run(sizes, validKeys, &step);
  if (failed(cost))
    return failure();
  step.cost = std::move(*cost);
  result.steps.push_back(std::move(step));
  return success();
}

/// Simulates a prompt and the tokens after it. Token i reads the keys of the prompt and of i
/// tokens.
LogicalResult StepSimulator::generate(const PreallocatedStep &step, const Symbols &shape) {
  auto getSize = [&](const std::string &name) {
    auto found = shape.find(name);
    return found == shape.end() ? int64_t(1) : found->second;
  };
  int64_t prompt = getSize(step.tokens), capacity = getSize(step.capacity);
  Symbols one = shape;
  one[step.tokens] = 1;
  int64_t tokens = request.newTokens > 0 ? request.newTokens : 1;
  if (prompt + tokens - 1 > capacity)
    return emitError(staged.getLoc())
           << "a prompt of " << prompt << " tokens and " << tokens << " new tokens need caches of "
           << prompt + tokens - 1 << " tokens, but --shape has " << step.capacity << "="
           << capacity;
  if (prompt > 1 && failed(addStep("prompt", shape, 0)))
    return failure();
  if (failed(addStep("token", one, prompt + 1)))
    return failure();
  if (request.newTokens == 0)
    return success();
  SimulatedGeneration &all = result.generation.emplace();
  all.promptTokens = prompt;
  all.newTokens = tokens;
  all.seconds = result.steps[0].cost.seconds;
  // The prompt's step computes the first token. Each sample stands for the steps around it.
  int64_t rest = tokens - 1, samples = std::min(rest, maxSamples);
  for (int64_t i = 0; i < samples; ++i) {
    int64_t begin = i * rest / samples, end = (i + 1) * rest / samples;
    FailureOr<StepCost> cost = run(one, prompt + 1 + (begin + end - 1) / 2, nullptr);
    if (failed(cost))
      return failure();
    all.seconds += cost->seconds * double(end - begin);
  }
  return success();
}

namespace tpc {
FailureOr<ProgramSimulation> simulateProgram(ModuleOp staged, const SimulationRequest &request,
                                             const ShardSpec &spec, const Symbols &shape) {
  ProgramSimulation result;
  result.name = staged.getName().value_or("program").str();
  result.machine = request.machine;
  result.spec = spec;
  result.shape = shape;
  StepSimulator simulator(staged, request, result);
  if (failed(simulator.lower()))
    return failure();
  std::optional<PreallocatedStep> step = PreallocatedStep::lookup(staged);
  if (failed(step ? simulator.generate(*step, shape) : simulator.addStep("step", shape, 0)))
    return failure();
  return result;
}
} // namespace tpc
