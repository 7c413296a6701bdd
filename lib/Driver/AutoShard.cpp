//===- AutoShard.cpp - Choice of the grid for --megatron-shard=auto -------===//

#include "AutoShard.h"
#include "TpccOptions.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/State.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Transforms/Tactics/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::AutoShardPlan;
using ::tpc::AutoShardRequest;
using ::tpc::Machine;
using ::tpc::ShardSpec;

/// Maximum number of devices in the search.
static constexpr int64_t maxDevices = 1024;

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(std::make_error_code(std::errc::invalid_argument), message);
}

namespace tpc {
llvm::Expected<std::optional<AutoShardRequest>> checkAutoShard(TpccOptions &options) {
  if (options.megatronShard != kAutoShard) {
    for (auto [flag, given] : {std::pair("--devices", options.devices != 0),
                               {"--machine", !options.machine.empty() && !options.simulate},
                               {"--gpus-per-node", options.gpusPerNode != 0},
                               {"--goal", !options.goal.empty()},
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
  if (options.devices < 1 || options.devices > maxDevices)
    return makeError("--devices=" + Twine(options.devices) + ": must be from 1 to " +
                     Twine(maxDevices));
  if (options.gpusPerNode < 0 || options.gpusPerNode > maxDevices)
    return makeError("--gpus-per-node=" + Twine(options.gpusPerNode) + ": must be from 1 to " +
                     Twine(maxDevices));
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
  if (!options.memory.empty()) {
    std::string error;
    std::optional<int64_t> bytes = parseMemorySize(options.memory, error);
    if (!bytes)
      return makeError("--memory=" + options.memory + ": " + error);
    request.memory = *bytes;
    if (int64_t most = request.machine.getMemory(1); *bytes > most)
      return makeError("--memory=" + options.memory + ": a device of '" + request.machine.name +
                       "' has " + formatMemorySize(most));
  }
  for (auto [flag, given] : {std::pair("--annotations", !options.annotations.empty()),
                             {"--device-configuration", !options.deviceConfiguration.empty()},
                             {"--memory-plan", !options.memoryPlan.empty()},
                             {"--quantize", !options.quantize.empty()},
                             {"--links", !options.links.empty()},
                             {"--explain", options.explain}})
    if (given)
      return makeError(Twine(flag) + " has no effect on --megatron-shard=auto: choose a grid, then "
                                     "name it with the flag");
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
  return request;
}
} // namespace tpc

namespace {

/// Programs of one structure: grids that differ only in sizes of axes share it.
struct Structure {
  std::string refused;
  OwningOpRef<ModuleOp> staged, lowered;
};

class Planner {
public:
  Planner(ModuleOp model, const AutoShardRequest &request, const Symbols &symbols)
      : model(model), request(request), symbols(symbols), step(PreallocatedStep::lookup(model)) {}

  FailureOr<SearchResult> run();
  /// Fills the remedies of a plan without a grid that fits.
  void findRemedies(AutoShardPlan &plan);
  bool generates() const { return step.has_value(); }

private:
  std::optional<ShardSpec> parse(const GridChoice &grid, std::string &error) const;
  int64_t getRanksPerNode(const GridChoice &grid) const;
  int64_t getMemory(const GridChoice &grid) const;
  Structure &compile(const GridChoice &grid);
  Structure &compileStructure(const GridChoice &key);
  GridCost evaluate(const GridChoice &grid);
  /// Returns the memory of a grid without its time; nothing if the grid is refused.
  std::optional<RankedGrid> measure(const GridChoice &grid, const Symbols &sizes);
  int64_t getBatch();

  ModuleOp model;
  const AutoShardRequest &request;
  Symbols symbols;
  std::optional<PreallocatedStep> step;
  std::map<std::string, Structure> structures;
};

} // namespace

std::optional<ShardSpec> Planner::parse(const GridChoice &grid, std::string &error) const {
  std::string text = grid.str();
  if (request.gpusPerNode > 0)
    text += ",gpus-per-node=" + std::to_string(request.gpusPerNode);
  return ShardSpec::parse(text, error);
}

/// Returns the number of ranks that share a machine's cores and memory.
int64_t Planner::getRanksPerNode(const GridChoice &grid) const {
  int64_t copies = request.goal == Goal::Throughput ? request.devices / grid.getRanks() : 1;
  int64_t ranks = grid.getRanks() * copies;
  return request.gpusPerNode > 0 ? std::min(ranks, request.gpusPerNode) : ranks;
}

int64_t Planner::getMemory(const GridChoice &grid) const {
  int64_t own = request.machine.getMemory(getRanksPerNode(grid));
  return request.memory > 0 ? std::min(own, request.memory) : own;
}

/// The program depends on tp, pp, and on whether there are micro-batches; all other sizes are
/// symbols of it. A program for two replicas is one for each number of them, unless the model
/// cannot be split over replicas.
Structure &Planner::compile(const GridChoice &grid) {
  GridChoice key = grid;
  key.mb = std::min<int64_t>(2, grid.mb);
  key.dp = getBatch() > 1 ? 2 : grid.dp;
  Structure &structure = compileStructure(key);
  if (structure.refused.empty() || grid.dp > 1)
    return structure;
  key.dp = 1;
  return compileStructure(key);
}

Structure &Planner::compileStructure(const GridChoice &key) {
  auto [it, isNew] = structures.try_emplace(key.str());
  Structure &structure = it->second;
  if (!isNew)
    return structure;
  std::optional<ShardSpec> spec = parse(key, structure.refused);
  if (!spec)
    return structure;
  ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && structure.refused.empty())
      structure.refused = diagnostic.str();
    return success();
  });
  auto run = [&](ModuleOp module, llvm::function_ref<void(PassManager &)> build) {
    PassManager pm(model.getContext());
    build(pm);
    bool done = succeeded(pm.run(module));
    if (!done && structure.refused.empty())
      structure.refused = "cannot be compiled";
    return done;
  };
  structure.staged = model.clone();
  if (!run(*structure.staged, [&](PassManager &pm) {
        for (::tpc::Emit level : {::tpc::Emit::Sharded, ::tpc::Emit::Spmd, ::tpc::Emit::Staged})
          ::tpc::buildLevelPassPipeline(pm, level, *spec, nullptr, /*last=*/false);
      }))
    return structure;
  structure.lowered = structure.staged->clone();
  run(*structure.lowered, [&](PassManager &pm) {
    ::tpc::buildKernelsPassPipeline(pm);
    ::tpc::buildBuffersPassPipeline(pm);
  });
  return structure;
}

GridCost Planner::evaluate(const GridChoice &choice) {
  GridCost cost;
  Structure &structure = compile(choice);
  cost.refused = structure.refused;
  std::optional<ShardSpec> spec = parse(choice, cost.refused);
  if (!cost.refused.empty() || !spec)
    return cost;
  GridAttr grid = makeGrid(model.getContext(), *spec);
  (*structure.staged)->setAttr(kGridAttr, grid);
  ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
    if (cost.refused.empty())
      cost.refused = diagnostic.str();
    return success();
  });
  int64_t copies = request.goal == Goal::Throughput ? request.devices / choice.getRanks() : 1;
  auto estimate = [&](const Symbols &sizes) -> StepCost {
    FailureOr<Report> report = computeReport(*structure.staged, sizes);
    if (failed(report))
      return {};
    if (cost.collectives.empty())
      cost.collectives = report->collectives;
    RankMemory memory = getRankMemory(*structure.lowered, grid, *report, sizes);
    if (memory.getNeed() > cost.memory.getNeed())
      cost.memory = memory;
    StepEstimator estimator(*structure.lowered, grid, sizes, request.machine, copies);
    llvm::Expected<StepCost> time = estimator.run(*report);
    if (!time) {
      std::string why = llvm::toString(time.takeError());
      if (cost.refused.empty())
        cost.refused = why;
      return {};
    }
    return *time;
  };
  cost.step = estimate(symbols);
  if (step && symbols[step->tokens] > 1) {
    cost.prompt = cost.step;
    Symbols one = symbols;
    one[step->tokens] = 1;
    cost.step = estimate(one);
  }
  return cost;
}

std::optional<RankedGrid> Planner::measure(const GridChoice &choice, const Symbols &sizes) {
  Structure &structure = compile(choice);
  std::string error;
  std::optional<ShardSpec> spec = parse(choice, error);
  if (!structure.refused.empty() || !spec)
    return std::nullopt;
  GridAttr grid = makeGrid(model.getContext(), *spec);
  (*structure.staged)->setAttr(kGridAttr, grid);
  ScopedDiagnosticHandler quiet(model.getContext(), [](Diagnostic &) { return success(); });
  FailureOr<Report> report = computeReport(*structure.staged, sizes);
  if (failed(report))
    return std::nullopt;
  RankedGrid row;
  row.grid = choice;
  row.cost.memory = getRankMemory(*structure.lowered, grid, *report, sizes);
  row.memory = getMemory(choice);
  return row;
}

void Planner::findRemedies(AutoShardPlan &plan) {
  auto forEachDivision = [&](int64_t ranks, llvm::function_ref<void(const GridChoice &)> visit) {
    for (int64_t tp = ranks; tp >= 1; --tp)
      if (ranks % tp == 0)
        visit({tp, ranks / tp});
  };
  // Grids that bounds have pruned are measured here.
  std::vector<RankedGrid> &tooLarge = plan.search.tooLarge;
  if (tooLarge.empty())
    forEachDivision(request.devices, [&](const GridChoice &grid) {
      if (std::optional<RankedGrid> row = measure(grid, symbols))
        if (tooLarge.empty() || row->cost.memory.getNeed() < tooLarge[0].cost.memory.getNeed())
          tooLarge = {*row};
    });
  for (int64_t ranks = 2 * request.devices;
       ranks <= std::min(maxDevices, 16 * request.devices) && !plan.larger; ranks *= 2)
    forEachDivision(ranks, [&](const GridChoice &grid) {
      if (std::optional<RankedGrid> row = measure(grid, symbols);
          row && row->fits() && !plan.larger)
        plan.larger = row;
    });
  std::optional<std::string> batch;
  if (auto main = model.lookupSymbol<func::FuncOp>("main"))
    for (Type type : main.getArgumentTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.getRank() > 1 && !batch)
        batch = getSymbolName(getSizes(type)[0]);
  if (!batch)
    return;
  Symbols sizes = symbols;
  while ((sizes[*batch] /= 2) > 0 && !plan.smallerBatch)
    forEachDivision(request.devices, [&](const GridChoice &grid) {
      if (std::optional<RankedGrid> row = measure(grid, sizes);
          row && row->fits() && !plan.smallerBatch)
        plan.smallerBatch = {plan.getSpec(grid) + " fits at " + *batch, sizes[*batch]};
    });
}

/// Returns the size of the inputs' first dimension, which dp and mb split.
int64_t Planner::getBatch() {
  int64_t batch = 1;
  if (auto main = model.lookupSymbol<func::FuncOp>("main"))
    for (Type type : main.getArgumentTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.getRank() > 1)
        batch = std::max(batch, evaluateOr1(getSizes(type)[0], symbols));
  return batch;
}

FailureOr<SearchResult> Planner::run() {
  // The unsplit program has the work for lower bounds, and errors that all grids share.
  GridChoice unsplit;
  GridCost whole = evaluate(unsplit);
  if (!whole.refused.empty())
    return emitError(model.getLoc()) << whole.refused;
  Structure &structure = compile(unsplit);
  FailureOr<Report> report = computeReport(*structure.staged, symbols);
  if (failed(report))
    return failure();
  double weightBytes = 0;
  for (const ParameterRow &parameter : report->stages[0].parameters)
    weightBytes += double(parameter.bytes);

  SearchProblem problem;
  problem.devices = request.devices;
  problem.batch = getBatch();
  problem.layers = report->stages[0].layers;
  problem.goal = request.goal;
  problem.getMemory = [&](const GridChoice &grid) { return getMemory(grid); };
  // Some rank of a replica has at least its share of the weights.
  problem.getLeastMemory = [&](const GridChoice &grid) {
    return int64_t(weightBytes / double(grid.tp * grid.pp));
  };
  // Each stage reads its weights for the first micro-batch, one stage after another; all ranks
  // together compute all matmuls. Matmuls of other types than the largest are not counted.
  MatmulWork work = whole.step.work;
  problem.getLeastSeconds = [&, work](const GridChoice &grid) {
    int64_t threads = request.machine.getThreads(getRanksPerNode(grid));
    return request.machine.getLeastMatmulSeconds(threads, work.flops / double(grid.getRanks()),
                                                 work.weightBytes / double(grid.tp));
  };
  problem.evaluate = [&](const GridChoice &grid) { return evaluate(grid); };
  return searchGrids(problem);
}

namespace tpc {
FailureOr<AutoShardPlan> planAutoShard(ModuleOp model, const AutoShardRequest &request,
                                       const Symbols &symbols) {
  Planner planner(model, request, symbols);
  FailureOr<SearchResult> search = planner.run();
  if (failed(search))
    return failure();
  AutoShardPlan plan{request, symbols, planner.generates(), std::move(*search)};
  if (!plan.fits())
    planner.findRemedies(plan);
  return plan;
}
} // namespace tpc
