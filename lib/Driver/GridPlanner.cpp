//===- GridPlanner.cpp - Estimates of grids for the search ----------------===//

#include "GridPlanner.h"
#include "Compile.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Transforms/Tactics/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::AutoShardPlan;
using ::tpc::AutoShardRequest;
using ::tpc::GridPlanner;
using ::tpc::ShardSpec;

/// Limit on evaluated grids without --search, for more than `numManyDevices` devices.
static constexpr size_t maxEvaluations = 32;
static constexpr int64_t numManyDevices = 64;

/// Factor of the bounds of a family. They assume that more work takes longer, and that work in
/// parts takes longer than at once. The machine's tables may contradict both.
static constexpr double familySlack = 0.9;
/// Factor of the bound of a grid, because the kernels of other stages may move fewer bytes.
static constexpr double stageSlack = 0.97;

GridPlanner::GridPlanner(ModuleOp model, const AutoShardRequest &request, const Symbols &symbols)
    : model(model), request(request), symbols(symbols), step(PreallocatedStep::lookup(model)),
      stepSymbols(symbols) {
  if (step)
    stepSymbols[step->tokens] = 1;
  auto main = model.lookupSymbol<func::FuncOp>("main");
  for (Type type : main ? main.getArgumentTypes() : ArrayRef<Type>())
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.getRank() > 1) {
      batch = std::max(batch, evaluateOr1(getSizes(type)[0], symbols));
      if (!batchSymbol)
        batchSymbol = getSymbolName(getSizes(type)[0]);
    }
  model.walk([&](AttentionOp op) {
    auto kv = getSizes(op.getK())[2].asConstant(), queries = getSizes(op.getQ())[2].asConstant();
    if (kv && queries && *kv > 1 && *kv < *queries)
      groupedHeads.push_back({*kv, *queries});
  });
}

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

std::optional<ShardSpec> GridPlanner::parse(const GridChoice &grid, std::string &error) const {
  std::string text = grid.str();
  if (request.gpusPerNode > 0)
    text += ",gpus-per-node=" + std::to_string(request.gpusPerNode);
  return ShardSpec::parse(text, error);
}

int64_t GridPlanner::getCopies(const GridChoice &grid) const {
  return request.goal == Goal::Throughput ? request.devices / grid.getRanks() : 1;
}

/// Returns the number of ranks that share a machine's cores and memory.
int64_t GridPlanner::getRanksPerNode(const GridChoice &grid) const {
  int64_t ranks = grid.getRanks() * getCopies(grid);
  return request.gpusPerNode > 0 ? std::min(ranks, request.gpusPerNode) : ranks;
}

int64_t GridPlanner::getMemory(const GridChoice &grid) const {
  int64_t available = request.machine.getMemory(getRanksPerNode(grid));
  return request.memory > 0 ? std::min(available, request.memory) : available;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Compiles the program of a grid, or returns a compiled one that differs only in values of
/// symbols. The program depends on the axes of tp and ep, on pp and vpp, and on whether there are
/// micro-batches; with vpp, on the number of micro-batches. The program for two replicas serves any
/// number of replicas, unless experts are split over replicas. If the model cannot be split over
/// replicas, a single replica has a program of its own.
GridPlanner::Structure &GridPlanner::compile(const GridChoice &grid) {
  GridChoice key = grid;
  if (grid.vpp == 1)
    key.mb = std::min<int64_t>(2, grid.mb);
  if (grid.getExpertRanks() > 1)
    return compileStructure(key);
  key.dp = batch > 1 ? 2 : grid.dp;
  Structure &structure = compileStructure(key);
  if (structure.refused.empty() || grid.dp > 1)
    return structure;
  key.dp = 1;
  return compileStructure(key);
}

GridPlanner::Structure &GridPlanner::compileStructure(const GridChoice &key) {
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
    pm.enableVerifier(false);
    build(pm);
    bool done = succeeded(pm.run(module)) && succeeded(verify(module));
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
  structure.program.emplace(*structure.lowered);
  return structure;
}

void GridPlanner::setExpertLoad(StepEstimator &estimator, const Structure &structure,
                                MeshAttr grid) {
  if (!request.routing)
    return;
  auto [selected, active] = getBusiestExperts(*structure.staged, grid, *request.routing);
  estimator.expertLoad = {selected, active};
}

GridCost GridPlanner::evaluate(const GridChoice &choice) {
  GridCost cost;
  Structure &structure = compile(choice);
  cost.refused = structure.refused;
  std::optional<ShardSpec> spec = parse(choice, cost.refused);
  if (!cost.refused.empty() || !spec)
    return cost;
  MeshAttr grid = makeMeshAttr(model.getContext(), *spec);
  (*structure.staged)->setAttr(kMeshAttr, grid);
  ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
    if (cost.refused.empty())
      cost.refused = diagnostic.str();
    return success();
  });
  auto estimate = [&](const Symbols &sizes) -> StepCost {
    FailureOr<Report> report = computeReport(*structure.staged, sizes, /*maxRanks=*/0);
    if (failed(report))
      return {};
    if (cost.collectives.empty())
      cost.collectives = report->collectives;
    RankMemory memory = getRankMemory(*structure.lowered, grid, *report, sizes);
    if (memory.getNeed() > cost.memory.getNeed())
      cost.memory = memory;
    StepEstimator estimator(*structure.program, grid, sizes, request.machine, getCopies(choice));
    setExpertLoad(estimator, structure, grid);
    if (request.routing &&
        failed(applyRouting(*structure.staged, sizes, *request.routing, *report)))
      return {};
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
  if (stepSymbols != symbols) {
    cost.prompt = cost.step;
    cost.step = estimate(stepSymbols);
  }
  return cost;
}

std::optional<RankedGrid> GridPlanner::measure(const GridChoice &choice, const Symbols &sizes) {
  Structure &structure = compile(choice);
  std::string error;
  std::optional<ShardSpec> spec = parse(choice, error);
  if (!structure.refused.empty() || !spec)
    return std::nullopt;
  MeshAttr grid = makeMeshAttr(model.getContext(), *spec);
  (*structure.staged)->setAttr(kMeshAttr, grid);
  ScopedDiagnosticHandler quiet(model.getContext(), [](Diagnostic &) { return success(); });
  FailureOr<Report> report = computeReport(*structure.staged, sizes, /*maxRanks=*/0);
  if (failed(report))
    return std::nullopt;
  RankedGrid row;
  row.grid = choice;
  row.cost.memory = getRankMemory(*structure.lowered, grid, *report, sizes);
  row.memory = getMemory(choice);
  return row;
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// Returns the grid of one stage and one replica with the same tp and ep.
static GridChoice getOneStage(const GridChoice &grid) {
  GridChoice one = grid;
  one.pp = one.dp = one.mb = one.vpp = 1;
  one.pipelineInside = false;
  return one;
}

GridPlanner::Structure *GridPlanner::getBounding(const GridChoice &grid) {
  GridChoice least = getOneStage(grid);
  bool hasRanks = grid.getExpertRanks() > 1;
  least.tensorX = std::min<int64_t>(2, grid.tensorX);
  least.tp = least.tensorX * (grid.tp > grid.tensorX ? 2 : 1);
  if (grid.etp > 1) // and less than tp
    least.tp = 4;
  if (grid.etp > 0)
    least.etp = least.tp / 2;
  if (grid.ep > 1)
    least.ep = least.getExpertGroups() * (hasRanks ? 2 : 1);
  Structure &structure = compile(least);
  return structure.refused.empty() ? &structure : nullptr;
}

MeshAttr GridPlanner::makeBoundingGrid(const GridChoice &grid, int64_t samples) {
  std::string error;
  std::optional<ShardSpec> spec = parse(getOneStage(grid), error);
  if (!spec)
    return {};
  MeshAttr attr = makeMeshAttr(model.getContext(), *spec);
  if (batchSymbol)
    return attr;
  SmallVector<int64_t> sizes(attr.getSizes());
  for (auto [name, size] : llvm::zip(attr.getOrder(), sizes))
    if (name.getValue() == "dp")
      size = (batch + samples - 1) / samples;
  return MeshAttr::get(model.getContext(), attr.getOrder(), sizes, attr.getViews(), 1,
                       attr.getGpusPerNode(), 1);
}

/// Whether replicas exchange tokens, so that a program with one replica is no bound.
static bool exchangesTokens(const GridChoice &grid) {
  return grid.dp > 1 && grid.getExpertRanks() > 1;
}

llvm::Expected<BusySeconds> GridPlanner::estimateBusy(const Structure &structure, MeshAttr grid,
                                                      int64_t samples, int64_t threads) {
  Symbols sizes = stepSymbols;
  if (batchSymbol)
    sizes[*batchSymbol] = samples;
  StepEstimator estimator(*structure.program, grid, sizes, request.machine, 1);
  setExpertLoad(estimator, structure, grid);
  return estimator.getBusySeconds(threads);
}

/// Reduces the time of a bounding program to that of the fewest query heads on a rank. Each rank of
/// the bounding program has complete groups of query heads. If tp does not divide the KV heads, the
/// program of the grid may repeat KV heads and split their groups (RepeatKvHeads.cpp). The time of
/// one group is at most that of a grid of very many ranks, where a rank computes little else.
void GridPlanner::removeRepeatedHeads(BusySeconds &seconds, const GridChoice &grid,
                                      const Structure &structure, MeshAttr attr, int64_t samples,
                                      int64_t threads) {
  double share = 1; // of query heads
  int64_t groups = 1, queries = 1;
  for (int64_t parts : {grid.tp / grid.tensorX, grid.tensorX == 1 ? grid.tp : grid.tensorX})
    for (const GroupedHeads &heads : groupedHeads) {
      int64_t kv = (heads.kv + parts - 1) / parts, complete = kv * (heads.queries / heads.kv);
      share = std::min(share, double((heads.queries + parts - 1) / parts) / double(complete));
      groups = std::max(groups, kv);
      queries = std::max(queries, heads.queries);
    }
  if (share == 1)
    return;
  SmallVector<int64_t> sizes(attr.getSizes());
  for (auto [name, size] : llvm::zip(attr.getOrder(), sizes))
    if (attr.isInView(name, "tp"))
      size = std::min(maxDevices, 16 * queries);
  llvm::Expected<BusySeconds> one =
      estimateBusy(structure,
                   MeshAttr::get(model.getContext(), attr.getOrder(), sizes, attr.getViews(), 1,
                                 attr.getGpusPerNode(), 1),
                   samples, threads);
  auto lower = [&](double &time, double ofGroup) {
    time = std::max(share * time, time - (1 - share) * double(groups) * ofGroup);
  };
  auto lowerAll = [&](Seconds &all, const Seconds &ofGroup) {
    lower(all.compute, ofGroup.compute);
    lower(all.memory, ofGroup.memory);
  };
  if (one) {
    lowerAll(seconds.prologue, one->prologue);
    lowerAll(seconds.microBatch, one->microBatch);
    return;
  }
  llvm::consumeError(one.takeError());
  seconds.prologue = seconds.prologue * share;
  seconds.microBatch = seconds.microBatch * share;
}

const GridPlanner::Busy &GridPlanner::getBusy(const GridChoice &grid, int64_t samples) {
  int64_t threads = request.machine.getThreads(grid.getRanks() * getCopies(grid));
  auto [it, isNew] = busy.try_emplace(
      {grid.tp, grid.tensorX, grid.ep, grid.etp, int64_t(grid.sp), samples, threads});
  Busy &result = it->second;
  Structure *structure = isNew ? getBounding(grid) : nullptr;
  // Ranks of ep split no batch of a static size.
  if (!structure || (!batchSymbol && samples < batch && grid.getExpertRanks() > 1))
    return result;
  MeshAttr attr = makeBoundingGrid(grid, samples);
  if (!attr)
    return result;
  llvm::Expected<BusySeconds> seconds = estimateBusy(*structure, attr, samples, threads);
  if (!seconds) {
    result.refused = llvm::toString(seconds.takeError());
    return result;
  }
  result.seconds = *seconds;
  removeRepeatedHeads(result.seconds, grid, *structure, attr, samples, threads);
  return result;
}

/// Each micro-batch has at least one sample.
GridPlanner::GridBound GridPlanner::boundSample(const GridChoice &grid) {
  if (exchangesTokens(grid))
    return {};
  const Busy &one = getBusy(grid, 1);
  return {familySlack * one.seconds.microBatch.total(), 0, one.refused};
}

/// Some stage does at least 1 / pp of the work of all micro-batches, each of at least samples / mb
/// samples. Takes the minimum over mb, because few large micro-batches may take longer than many
/// small ones, whose data fits in caches.
GridPlanner::GridBound GridPlanner::boundSamples(const GridChoice &grid) {
  if (exchangesTokens(grid))
    return {};
  int64_t samples = (batch + grid.dp - 1) / grid.dp;
  double least = std::numeric_limits<double>::infinity();
  SearchProblem numbers;
  numbers.batch = batch;
  enumerateGrids(numbers, grid, [&](const GridChoice &one) {
    const Busy &busy = getBusy(grid, samples / one.mb);
    least = std::min(least, double(one.mb) * busy.seconds.microBatch.total());
  });
  return {familySlack * least / double(grid.pp), 0, getBusy(grid, samples).refused};
}

/// Let T(i) be the time of micro-batch i in all stages together. Without chunks, some stage has at
/// least 1 / pp of the work: before its first run the first micro-batch is in the stages before it,
/// and after its last run the last micro-batch is in the stages after it. So a step takes at least
/// T(last) + (sum of the other T) / pp, as micro-batches are not larger than those before them.
/// With chunks, a step takes at least T(first), and sum of T / pp. Shared cores give a third bound.
GridPlanner::GridBound GridPlanner::boundGrid(const GridChoice &grid) {
  GridBound bound;
  if (exchangesTokens(grid))
    return bound;
  int64_t samples = (batch + grid.dp - 1) / grid.dp, number = std::min(grid.mb, samples);
  int64_t numLarge = samples % number == 0 ? number : samples % number;
  Busy large = getBusy(grid, (samples + number - 1) / number);
  const Busy &small = numLarge < number ? getBusy(grid, samples / number) : large;
  bound.refused = large.refused;
  const ::tpc::Machine &machine = request.machine;
  int64_t ranks = grid.getRanks() * getCopies(grid);
  double coresOfClass = double(machine.getThreads(ranks) * ranks) / double(grid.pp);
  double shared = machine.cores > 0 ? coresOfClass / double(machine.cores) : 0;
  auto getLocal = [&](const Seconds &s) { return s.total() - s.tensor; };
  auto getTime = [&](const Seconds &s) { return s.tensor + getLocal(s) * std::max(1.0, shared); };
  if (grid.pp == 1) {
    bound.seconds =
        stageSlack * (getTime(large.seconds.prologue) + getTime(large.seconds.microBatch));
    return bound;
  }
  double first = getTime(large.seconds.microBatch), last = getTime(small.seconds.microBatch);
  double numSmall = double(number - numLarge), all = double(numLarge) * first + numSmall * last;
  double local = double(numLarge) * getLocal(large.seconds.microBatch) +
                 numSmall * getLocal(small.seconds.microBatch);
  bound.seconds = grid.vpp == 1 ? last + (all - last) / double(grid.pp)
                                : std::max(first, all / double(grid.pp));
  bound.seconds = stageSlack * std::max(bound.seconds, local * shared);
  return bound;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

void GridPlanner::findRemedies(AutoShardPlan &plan) {
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
      if (plan.larger)
        return;
      if (std::optional<RankedGrid> row = measure(grid, symbols); row && row->fits())
        plan.larger = row;
    });
  if (!batchSymbol)
    return;
  Symbols sizes = symbols;
  while ((sizes[*batchSymbol] /= 2) > 0 && !plan.smallerBatch)
    forEachDivision(request.devices, [&](const GridChoice &grid) {
      if (plan.smallerBatch)
        return;
      if (std::optional<RankedGrid> row = measure(grid, sizes); row && row->fits())
        plan.smallerBatch = {plan.getSpec(grid) + " fits at " + *batchSymbol, sizes[*batchSymbol]};
    });
}

/// Returns the maximum number of experts of a layer, 1 without experts.
static int64_t countExperts(ModuleOp model) {
  int64_t experts = 1;
  model.walk([&](MoeOp op) {
    experts = std::max(experts, evaluateOr1(getSizes(op.getUp().getType())[0], {}));
  });
  return experts;
}

FailureOr<SearchResult> GridPlanner::run() {
  if (request.routing && failed(checkRouting(model, symbols, *request.routing)))
    return failure();
  // The unsplit program has the work for lower bounds, and errors that all grids share.
  GridChoice unsplit;
  GridCost whole = evaluate(unsplit);
  if (!whole.refused.empty())
    return emitError(model.getLoc()) << whole.refused;
  Structure &structure = compile(unsplit);
  FailureOr<Report> report = computeReport(*structure.staged, symbols, /*maxRanks=*/0);
  if (failed(report))
    return failure();
  double weightBytes = 0;
  for (const ParameterRow &parameter : report->stages[0].parameters)
    weightBytes += double(parameter.bytes);
  double cacheBytesOfSample = double(report->stages[0].cacheBytes) / double(batch);

  SearchProblem problem;
  problem.devices = request.devices;
  problem.batch = batch;
  problem.layers = report->stages[0].layers;
  problem.experts = countExperts(model);
  problem.ranksPerNode = request.gpusPerNode;
  problem.goal = request.goal;
  problem.isExhaustive = request.isExhaustive;
  if (request.maxEvaluations > 0)
    problem.maxEvaluations = size_t(request.maxEvaluations);
  else if (request.devices > numManyDevices && !request.isExhaustive)
    problem.maxEvaluations = maxEvaluations;
  problem.getMemory = [&](const GridChoice &grid) { return getMemory(grid); };
  // Some rank of a replica has at least its share of the weights and caches. Each stage reads its
  // weights for the first micro-batch, one stage after another; all ranks together compute all
  // matmuls. Experts that no token selects are not read.
  MatmulWork work = whole.step.work;
  if (problem.experts > 1)
    work.weightBytes = 0;
  auto boundWork = [&, work](const GridChoice &grid) {
    int64_t threads = request.machine.getThreads(grid.getRanks() * getCopies(grid));
    return GridBound{
        request.machine.getLeastMatmulSeconds(threads, work.flops / double(grid.getRanks()),
                                              work.weightBytes / double(grid.tp)),
        int64_t((weightBytes + cacheBytesOfSample * double((batch + grid.dp - 1) / grid.dp)) /
                double(grid.tp * grid.pp * grid.getExpertRanks())),
        ""};
  };
  problem.familyBounds = {boundWork, [&](const GridChoice &grid) { return boundSample(grid); },
                          [&](const GridChoice &grid) { return boundSamples(grid); }};
  problem.getBound = [&](const GridChoice &grid) { return boundGrid(grid); };
  problem.evaluate = [&](const GridChoice &grid) { return evaluate(grid); };
  return searchGrids(problem);
}
