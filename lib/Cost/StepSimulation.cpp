//===- StepSimulation.cpp - Runs of stages on a machine -------------------===//

#include "tpc/Cost/StepCost.h"

#include "tpc/Dialect/Dist.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::ScheduledRun;
using ::tpc::SimulatedEvent;
using ::tpc::SimulationProblem;

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static std::string join(ArrayRef<int64_t> sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// Returns the kind and sizes of a call, as the runtime's profile names them.
OpEvent StepEstimator::describe(Operation &op) {
  OpEvent event;
  if (auto product = dyn_cast<buffer::ProductOp>(op)) {
    event.kind = "product";
    event.what = join({evaluate(product.getM()), evaluate(product.getK())});
    const char *separator = "x";
    for (buffer::ProductOp::Matmul part : product.getMatmuls()) {
      event.what += separator + std::to_string(evaluate(part.n.getExpr()));
      separator = "+";
    }
  } else if (auto product = dyn_cast<buffer::BatchProductOp>(op)) {
    event.kind = "batch_product";
    event.what = join({evaluate(product.getBatch()), evaluate(product.getM()),
                       evaluate(product.getK()), evaluate(product.getN())});
  } else if (auto attention = dyn_cast<buffer::AttentionOp>(op)) {
    event.kind = "attention";
    event.what = join({evaluate(attention.getBatch()), evaluate(attention.getHeads()),
                       evaluate(attention.getQueries()), evaluate(attention.getKeys()),
                       evaluate(attention.getHeadSize())});
  } else if (auto launch = dyn_cast<buffer::LaunchOp>(op)) {
    event.kind = "kernel";
    event.what = launch.getKernel().str();
  } else if (auto append = dyn_cast<buffer::AppendOp>(op)) {
    event.kind = "append";
    event.what = join({evaluate(append.getBatch()), evaluate(append.getHeads()),
                       evaluate(append.getTokens()), evaluate(append.getCapacity()),
                       evaluate(append.getSize())});
  } else {
    event.kind = op.getName().stripDialect().str();
  }
  return event;
}

void StepEstimator::expand(Block &block, std::vector<OpEvent> &events) {
  auto getFrame = [&](buffer::PushOp push) {
    return int64_t(llvm::alignTo(std::max<int64_t>(evaluate(push.getBytes()), 1), 64));
  };
  for (Operation &op : block) {
    if (auto push = dyn_cast<buffer::PushOp>(op)) {
      live += getFrame(push);
    } else if (auto pop = dyn_cast<buffer::PopOp>(op)) {
      live -= getFrame(pop.getFrame().getDefiningOp<buffer::PushOp>());
    } else if (auto call = dyn_cast<buffer::CallOp>(op)) {
      expand(module.lookupSymbol<buffer::FuncOp>(call.getCallee()).getBody().front(), events);
    } else if (isa<buffer::RoundsOp>(op)) {
      liveInRounds = live;
    } else if (op.getNumRegions() > 0) {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          expand(inner, events);
    } else {
      OpCost cost = visitCall(op);
      OpEvent event = cost.event.kind.empty() ? describe(op) : cost.event;
      event.seconds = cost.seconds;
      event.seconds.pipeline = cost.message;
      if (event.seconds.total() == 0)
        continue;
      event.node = getSourceName(op.getLoc());
      event.liveBytes = live;
      events.push_back(std::move(event));
    }
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Appends the runs of a stage in program order. Returns their bodies by chunk of the rank and
/// micro-batch: the loop of all micro-batches, or the events of a schedule, in which the n-th event
/// of a micro-batch runs chunk n.
std::vector<std::vector<Block *>>
StepEstimator::readSchedule(Block &block, size_t stage, int64_t microBatches,
                            std::vector<ScheduledRun> &schedule) {
  int64_t stages = grid.getAxisSize("pp");
  std::vector<std::vector<Block *>> bodies(size_t(grid.getChunksPerRank()),
                                           std::vector<Block *>(size_t(microBatches)));
  std::vector<size_t> chunkOf(size_t(microBatches), 0);
  schedule.push_back({int32_t(stage), -1});
  auto add = [&](int64_t microBatch, Block *body) {
    size_t chunk = chunkOf[size_t(microBatch)]++;
    bodies[chunk][size_t(microBatch)] = body;
    schedule.push_back({int32_t(int64_t(chunk) * stages + int64_t(stage)), int32_t(microBatch)});
  };
  bool hasRounds = false;
  for (auto rounds : block.getOps<buffer::RoundsOp>()) {
    hasRounds = true;
    Block *body = &rounds.getBody().front();
    if (rounds.getFirst())
      add(*rounds.getFirst(), body);
    else
      for (int64_t i = 0; i < microBatches; ++i)
        add(i, body);
  }
  for (int64_t i = 0; !hasRounds && i < microBatches; ++i)
    add(i, nullptr);
  return bodies;
}

llvm::Expected<StepCost> StepEstimator::run(const Report &from, StepTimeline *timeline) {
  report = &from;
  size_t numStages = report->stages.size();
  StepCost cost;
  cost.stages.resize(numStages);
  // Chunk c of rank s of pp is chunk c * stages + s of the program.
  size_t chunksPerRank = size_t(grid.getChunksPerRank()), numChunks = numStages * chunksPerRank;
  std::vector<std::vector<Seconds>> runs(numChunks); // by chunk: the prologue, then micro-batches
  std::vector<int64_t> microBatches(numStages);
  SimulationProblem simulated;
  simulated.schedule.resize(numStages);
  simulated.work.resize(numChunks);
  simulated.message.resize(numChunks);
  simulated.coreShare.resize(numChunks);
  simulated.prologue.resize(numChunks);
  std::vector<StageEvents> events(numChunks);
  for (auto function : module.getOps<buffer::FuncOp>()) {
    if (!function.getStage())
      continue;
    stage = *function.getStage();
    size_t at = size_t(stage);
    values["rank.pp"] = stage;
    values["rank.mb"] = 0;
    functions.clear();
    Block &block = function.getBody().front();
    for (size_t chunk = at; chunk < numChunks; chunk += numStages)
      runs[chunk].emplace_back();
    runs[at][0] = visitBlock(block).seconds;
    simulated.prologue[at] = runs[at][0].total();
    live = 0;
    if (timeline)
      expand(block, events[at].prologue);

    microBatches[at] = report->stages[at].microBatches;
    auto bodies = readSchedule(block, at, microBatches[at], simulated.schedule[at]);
    for (auto [local, blocks] : llvm::enumerate(bodies)) {
      size_t chunk = local * numStages + at;
      auto getBody = [&, &blocks = blocks](int64_t index) {
        values["rank.mb"] = index;
        functions.clear();
        Block *body = blocks[size_t(index)];
        return body ? visitBlock(*body) : OpCost();
      };
      if (blocks.empty())
        continue;
      // Sizes of micro-batches descend; if the last equals the first, all are equal.
      OpCost first = getBody(0), body = first;
      OpCost last = getBody(microBatches[at] - 1);
      bool isUneven =
          last.seconds.total() != first.seconds.total() || last.message != first.message;
      cost.work.flops += first.work.flops;
      cost.work.weightBytes += first.work.weightBytes;
      for (int64_t i = 0; i < microBatches[at]; ++i) {
        OpCost next = i == 0 ? first : isUneven ? getBody(i) : body;
        bool isSame =
            i > 0 && next.seconds.total() == body.seconds.total() && next.message == body.message;
        body = next;
        runs[chunk].push_back(body.seconds);
        double total = body.seconds.total();
        simulated.work[chunk].push_back(total);
        simulated.message[chunk].push_back(body.message);
        simulated.coreShare[chunk].push_back(total > 0 ? 1 - body.seconds.tensor / total : 1);
        if (!timeline)
          continue;
        if (!isSame && blocks[size_t(i)]) {
          values["rank.mb"] = i;
          live = liveInRounds;
          expand(*blocks[size_t(i)], events[chunk].bodies.emplace_back());
        }
        events[chunk].bodyOf.push_back(events[chunk].bodies.size() - 1);
      }
    }
  }
  if (!problem.empty())
    return llvm::createStringError(std::make_error_code(std::errc::not_supported), problem);

  simulated.cores = double(machine.cores);
  simulated.coresOfClass =
      double(threads * grid.getWorldSize() * copies) / double(std::max<size_t>(1, numStages));
  ::tpc::Simulation simulation = ::tpc::simulate(simulated);

  // Shared cores lengthen all causes but collectives.
  for (const SimulatedEvent &event : simulation.events) {
    if (event.isMessage)
      continue;
    Seconds part = runs[size_t(event.chunk)][size_t(event.microBatch + 1)];
    double tensor = part.tensor, own = part.total() - tensor;
    if (machine.cores > 0 && own > 0) {
      part.tensor = 0;
      part = part * ((event.end - event.begin - tensor) / own);
      part.tensor = tensor;
    }
    cost.stages[size_t(event.rankClass)] += part;
  }
  double total = simulation.seconds, idle = 0;
  for (const Seconds &seconds : cost.stages) {
    if (seconds.total() >= cost.seconds.total())
      cost.seconds = seconds;
    idle += total - seconds.total();
  }
  cost.seconds.pipeline += total - cost.seconds.total();
  cost.bubble = total > 0 ? idle / (total * double(std::max<size_t>(1, numStages))) : 0;
  cost.measured = measured;
  cost.extrapolated = extrapolated;
  if (timeline)
    *timeline = {std::move(simulation), std::move(events)};
  return cost;
}
