//===- StepSimulation.cpp - Runs of stages on a machine -------------------===//

#include "tpc/Cost/StepCost.h"

#include "tpc/Buffer/Async.h"
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
  // Asynchronous collectives, as in visitBlock. Their events are those of the waits.
  size_t first = events.size();
  double now = 0, end = 0;
  DenseMap<Value, std::pair<OpEvent, double>> asyncEvents;
  for (Operation &op : block) {
    for (; first < events.size(); ++first)
      now += events[first].seconds.total() - events[first].seconds.pipeline;
    if (auto start = dyn_cast<buffer::AllReduceStartOp>(op)) {
      OpCost cost = visitCall(op);
      end = std::max(end, now) + cost.seconds.tensor;
      cost.event.node = getSourceName(op.getLoc());
      asyncEvents[start.getToken()] = {cost.event, end};
    } else if (auto wait = dyn_cast<buffer::WaitOp>(op)) {
      auto [event, eventEnd] = asyncEvents.lookup(wait.getToken());
      event.seconds.tensor = std::max(0.0, eventEnd - now);
      event.liveBytes = live;
      if (event.bytes > 0)
        events.push_back(event);
    } else if (auto push = dyn_cast<buffer::PushOp>(op)) {
      live += getFrame(push);
    } else if (auto pop = dyn_cast<buffer::PopOp>(op)) {
      live -= getFrame(pop.getFrame().getDefiningOp<buffer::PushOp>());
    } else if (auto call = dyn_cast<buffer::CallOp>(op)) {
      expand(program.functions.lookup(call.getCallee()).getBody().front(), events);
    } else if (isa<buffer::MicroBatchesOp>(op)) {
      liveInMicroBatches = live;
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

/// Blocks of one run: its calls, and in a schedule of events its message.
using RunBlocks = SmallVector<Block *, 2>;

/// Appends the runs of a stage in program order. Returns their blocks by chunk of the rank and
/// micro-batch. Of each micro-batch, the n-th event that computes belongs to chunk n, and so
/// does the n-th event that sends. Events that receive are no runs.
static std::vector<std::vector<RunBlocks>> readSchedule(Block &block, MeshAttr grid, size_t stage,
                                                        int64_t microBatches,
                                                        std::vector<ScheduledRun> &schedule) {
  int64_t stages = grid.getAxisSize(kPipelineAxis);
  std::vector<std::vector<RunBlocks>> blocks(size_t(grid.getChunksPerRank()),
                                             std::vector<RunBlocks>(size_t(microBatches)));
  std::vector<size_t> numRuns(size_t(microBatches), 0), numSends = numRuns;
  schedule.push_back({int32_t(stage), -1});
  auto addRun = [&](int64_t microBatch, Block *body) {
    size_t chunk = numRuns[size_t(microBatch)]++;
    if (body)
      blocks[chunk][size_t(microBatch)].push_back(body);
    schedule.push_back({int32_t(int64_t(chunk) * stages + int64_t(stage)), int32_t(microBatch)});
  };
  bool hasMicroBatches = false;
  for (auto iterations : block.getOps<buffer::MicroBatchesOp>()) {
    hasMicroBatches = true;
    Block &body = iterations.getBody().front();
    bool computes = llvm::any_of(body, [](Operation &op) {
      return !isa<buffer::SlotOp, buffer::PartOp, buffer::SendOp, buffer::RecvOp>(op);
    });
    bool isUpdate = !iterations.getFirst() && !iterations.getSizeAttr() && microBatches > 1;
    if (isUpdate) { // of sums over micro-batches, after the last one
      blocks[0].back().push_back(&body);
    } else if (!iterations.getFirst()) {
      for (int64_t i = 0; i < microBatches; ++i)
        addRun(i, &body);
    } else if (int64_t index = *iterations.getFirst(); index < microBatches) {
      if (computes)
        addRun(index, &body);
      else if (!body.getOps<buffer::SendOp>().empty())
        blocks[numSends[size_t(index)]++][size_t(index)].push_back(&body);
    }
  }
  for (int64_t i = 0; !hasMicroBatches && i < microBatches; ++i)
    addRun(i, nullptr);
  return blocks;
}

llvm::Expected<BusySeconds> StepEstimator::getBusySeconds(int64_t numThreads) {
  threads = numThreads;
  BusySeconds busy;
  for (buffer::FuncOp function : program.stages) {
    Block &block = function.getBody().front();
    busy.prologue += visitBlock(block).seconds;
    for (auto iterations : block.getOps<buffer::MicroBatchesOp>())
      busy.microBatch += visitBlock(iterations.getBody().front()).seconds;
  }
  if (!problem.empty())
    return llvm::createStringError(std::make_error_code(std::errc::not_supported), problem);
  return busy;
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
  std::vector<ChunkEvents> events(numChunks);
  for (buffer::FuncOp function : program.stages) {
    stage = *function.getStage();
    size_t at = size_t(stage);
    values.set("rank.pp", stage);
    values.set("rank.mb", 0);
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
    auto bodies = readSchedule(block, grid, at, microBatches[at], simulated.schedule[at]);
    for (auto [local, blocks] : llvm::enumerate(bodies)) {
      size_t chunk = local * numStages + at;
      auto getBody = [&, &blocks = blocks](int64_t index) {
        values.set("rank.mb", index);
        functions.clear();
        OpCost cost;
        for (Block *body : blocks[size_t(index)])
          cost += visitBlock(*body);
        return cost;
      };
      if (blocks.empty())
        continue;
      // Sizes of micro-batches descend; if the last equals the first, all are equal.
      OpCost first = getBody(0), body = first;
      OpCost last = getBody(microBatches[at] - 1);
      // Times of unequal sizes may be equal, but operations are not.
      auto isEqual = [](const OpCost &a, const OpCost &b) {
        return a.seconds.total() == b.seconds.total() && a.message == b.message &&
               a.work.flops == b.work.flops;
      };
      bool isUneven = !isEqual(first, last);
      cost.work.flops += first.work.flops;
      cost.work.weightBytes += first.work.weightBytes;
      for (int64_t i = 0; i < microBatches[at]; ++i) {
        OpCost next = i == 0 ? first : isUneven ? getBody(i) : body;
        bool isSame = i > 0 && isEqual(next, body);
        body = next;
        runs[chunk].push_back(body.seconds);
        double total = body.seconds.total();
        simulated.work[chunk].push_back(total);
        simulated.message[chunk].push_back(body.message);
        simulated.coreShare[chunk].push_back(total > 0 ? 1 - body.seconds.tensor / total : 1);
        if (!timeline)
          continue;
        if (!isSame) {
          values.set("rank.mb", i);
          events[chunk].bodies.emplace_back();
          for (Block *part : blocks[size_t(i)]) {
            live = liveInMicroBatches;
            expand(*part, events[chunk].bodies.back());
          }
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
    double tensor = part.tensor, others = part.total() - tensor;
    if (machine.cores > 0 && others > 0) {
      part.tensor = 0;
      part = part * ((event.end - event.begin - tensor) / others);
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
  cost.derivedError = derivedError;
  if (timeline)
    *timeline = {std::move(simulation), std::move(events)};
  return cost;
}
