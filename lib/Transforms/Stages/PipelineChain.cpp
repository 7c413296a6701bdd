//===- PipelineChain.cpp - Op chain that stages are cut from --------------===//

#include "PipelineChain.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Stages/Cuts.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;

PipelineChain::PipelineChain(func::FuncOp main, CostModel &model, DenseSet<Operation *> recomputed)
    : main(main), model(model), recomputed(std::move(recomputed)) {
  for (Operation &op : main.front().without_terminator()) {
    if (this->recomputed.contains(&op))
      continue;
    position[&op] = carried.size();
    carried.push_back(&op);
  }
  findCutPoints();
}

/// Uses as an output are ignored, because outputs are delivered by the stage that computes them.
void PipelineChain::findCutPoints() {
  cutPoints.push_back({0, Value()});
  llvm::SetVector<Value> live;
  DenseMap<Value, size_t> lastUse; // index of the last carried user
  for (auto [i, op] : llvm::enumerate(carried))
    for (Value operand : op->getOperands())
      lastUse[operand] = i;
  for (size_t i = 0; i + 1 < carried.size(); ++i) {
    for (Value result : carried[i]->getResults())
      if (lastUse.count(result))
        live.insert(result);
    live.remove_if([&](Value value) { return lastUse[value] <= i; });
    // No cut after a gather, because a cut before it sends less.
    if (live.size() == 1 && !getDist(live[0]).getPartial() &&
        !isa_and_nonnull<AllGatherOp>(live[0].getDefiningOp()))
      cutPoints.push_back({i + 1, live[0]});
  }
}

std::optional<size_t> PipelineChain::getPosition(Operation *op) const {
  auto it = position.find(op);
  return it == position.end() ? std::nullopt : std::optional<size_t>(it->second);
}

ArrayRef<Operation *> PipelineChain::getCarried(size_t from, size_t to) const {
  size_t begin = cutPoints[from].begin;
  size_t end = to < cutPoints.size() ? cutPoints[to].begin : carried.size();
  return ArrayRef(carried).slice(begin, end - begin);
}

/// The recursion depth is bounded by the limit on recomputed ops per value.
void PipelineChain::collect(Operation *op, llvm::SetVector<Operation *> &ops) const {
  if (ops.contains(op))
    return;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp(); producer && recomputed.contains(producer))
      collect(producer, ops);
  ops.insert(op);
}

llvm::SetVector<Operation *> PipelineChain::getOps(size_t from, size_t to) const {
  llvm::SetVector<Operation *> ops;
  for (Operation *op : getCarried(from, to))
    collect(op, ops);
  return ops;
}

Cost PipelineChain::getCost(size_t from, size_t to) {
  Cost cost;
  SmallVector<Operation *> parameters;
  for (Operation *op : getOps(from, to)) {
    cost += model.getCost(op);
    if (isa<ParameterOp>(op))
      parameters.push_back(op);
  }
  // A tied head and the embedding share one copy of their weights.
  cost.weightBytes = 0;
  for (ParameterOp parameter : getDistinctParameters(parameters))
    cost.weightBytes += model.getBytes(parameter.getType());
  return cost;
}

double PipelineChain::getRecomputedSeconds(size_t from, size_t to) {
  double sum = 0;
  for (Operation *op : getOps(from, to))
    if (recomputed.contains(op))
      sum += model.getCost(op).seconds;
  return sum;
}

Cost PipelineChain::getMaxCost(ArrayRef<size_t> cuts) {
  Cost maxCost;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    Cost cost = getCost(i == 0 ? 0 : cuts[i - 1], i < cuts.size() ? cuts[i] : cutPoints.size());
    maxCost.seconds = std::max(maxCost.seconds, cost.seconds);
    maxCost.weightBytes = std::max(maxCost.weightBytes, cost.weightBytes);
  }
  return maxCost;
}

double PipelineChain::getSendSeconds(size_t cutPoint) const {
  return cutPoint == 0 || cutPoint == cutPoints.size()
             ? 0
             : model.getSendSeconds(cutPoints[cutPoint].live.getType());
}

/// Returns all cut points or, if there are very many, about a thousand, because choose() takes
/// quadratic time: the cut point with the cheapest message in each interval of equal time and in
/// each range.
std::vector<size_t> PipelineChain::getCandidates(size_t stages,
                                                 ArrayRef<StageBeginRange> ranges) const {
  size_t maxIntervals = std::max<size_t>(1024, 4 * stages);
  std::vector<size_t> all(cutPoints.size());
  std::iota(all.begin(), all.end(), 0);
  if (all.size() <= maxIntervals)
    return all;
  double total = 0;
  for (Operation *op : carried)
    total += model.getCost(op).seconds;
  std::vector<size_t> chosen = {0};
  double sum = 0;
  size_t lastInterval = 0, numSummed = 0; // of the previous cut point; carried ops in `sum`
  for (size_t cutPoint = 1; cutPoint < cutPoints.size(); ++cutPoint) {
    for (; numSummed < cutPoints[cutPoint].begin; ++numSummed)
      sum += model.getCost(carried[numSummed]).seconds;
    size_t interval = 1 + (total > 0 ? size_t(sum / total * double(maxIntervals - 2))
                                     : cutPoint * (maxIntervals - 2) / cutPoints.size());
    if (interval != lastInterval)
      chosen.push_back(cutPoint);
    else if (getSendSeconds(cutPoint) < getSendSeconds(chosen.back()))
      chosen.back() = cutPoint;
    lastInterval = interval;
  }
  for (const StageBeginRange &range : ranges) {
    std::optional<size_t> cheapest;
    for (size_t cutPoint = 1; cutPoint < cutPoints.size(); ++cutPoint)
      if (range.contains(cutPoints[cutPoint].begin) &&
          (!cheapest || getSendSeconds(cutPoint) <= getSendSeconds(*cheapest)))
        cheapest = cutPoint;
    if (cheapest)
      chosen.push_back(*cheapest);
  }
  llvm::sort(chosen);
  chosen.erase(llvm::unique(chosen), chosen.end());
  return chosen;
}

/// Computes seconds[i][j] of a stage from candidate i to candidate j, by one walk over recomputed
/// ops for each i, and by prefix sums for carried ops.
void PipelineChain::computeSeconds(size_t stages, ArrayRef<StageBeginRange> ranges) {
  DenseSet<Operation *> costly; // recomputed ops with nonzero time, or that depend on such ops
  for (Operation &op : main.front().without_terminator())
    if (recomputed.contains(&op) &&
        (model.getCost(&op).seconds > 0 || llvm::any_of(op.getOperands(), [&](Value operand) {
           return costly.contains(operand.getDefiningOp());
         })))
      costly.insert(&op);
  auto getCostly = [&](Operation *op, auto visit) {
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && costly.contains(producer))
        visit(producer);
  };
  until.assign(carried.size() + 1, 0);
  std::vector<size_t> costlyUsers; // carried ops that use costly ones
  for (auto [i, op] : llvm::enumerate(carried)) {
    until[i + 1] = until[i] + model.getCost(op).seconds;
    bool usesCostly = false;
    getCostly(op, [&](Operation *) { usesCostly = true; });
    if (usesCostly)
      costlyUsers.push_back(i);
  }

  candidates = getCandidates(stages, ranges);
  double cheapest = std::numeric_limits<double>::infinity();
  for (size_t cutPoint : ArrayRef(candidates).drop_front())
    cheapest = std::min(cheapest, getSendSeconds(cutPoint));
  std::vector<double> send(candidates.size() + 1);
  for (size_t i = 1; i < candidates.size(); ++i)
    send[i] = getSendSeconds(candidates[i]) - cheapest;

  seconds.assign(candidates.size(), std::vector<double>(candidates.size() + 1));
  for (size_t i = 0; i < candidates.size(); ++i) {
    DenseSet<Operation *> seen;
    double recomputeSeconds = 0;
    std::function<void(Operation *)> add = [&](Operation *op) {
      if (!seen.insert(op).second)
        return;
      recomputeSeconds += model.getCost(op).seconds;
      getCostly(op, add);
    };
    size_t begin = cutPoints[candidates[i]].begin;
    auto next = llvm::lower_bound(costlyUsers, begin);
    for (size_t j = i + 1; j <= candidates.size(); ++j) {
      size_t end = j < candidates.size() ? cutPoints[candidates[j]].begin : carried.size();
      for (; next != costlyUsers.end() && *next < end; ++next)
        getCostly(carried[*next], add);
      seconds[i][j] = until[end] - until[begin] + recomputeSeconds + send[i] + send[j];
    }
  }
}

std::optional<std::vector<size_t>> PipelineChain::choose(size_t stages,
                                                         ArrayRef<StageBeginRange> ranges) {
  if (stages == 1)
    return std::vector<size_t>();
  if (cutPoints.size() < stages)
    return std::nullopt;
  if (seconds.empty())
    computeSeconds(stages, ranges);
  auto getBegin = [&](size_t i) {
    return i < candidates.size() ? cutPoints[candidates[i]].begin : carried.size();
  };
  auto cuts = chooseCuts(
      candidates.size(), stages, [&](size_t i, size_t j) { return seconds[i][j]; }, 0.01,
      [&](size_t i, size_t j) { return until[getBegin(j)] - until[getBegin(i)]; },
      [&](size_t stage, size_t i) {
        return ranges.empty() || ranges[stage - 1].contains(getBegin(i));
      });
  if (cuts)
    for (size_t &cut : *cuts)
      cut = candidates[cut];
  return cuts;
}

func::FuncOp mlir::tpc::cloneAsFunction(OpBuilder &builder, Location loc, StringRef name,
                                        ArrayRef<Operation *> ops, ArrayRef<Value> arguments,
                                        ArrayRef<Value> results) {
  OpBuilder::InsertionGuard guard(builder);
  auto function = func::FuncOp::create(
      builder, loc, name,
      builder.getFunctionType(TypeRange(ValueRange(arguments)), TypeRange(ValueRange(results))));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  IRMapping mapping;
  for (auto [value, argument] : llvm::zip_equal(arguments, body->getArguments())) {
    mapping.map(value, argument);
    argument.setLoc(value.getLoc());
  }
  builder.setInsertionPointToStart(body);
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  SmallVector<Value> mapped;
  for (Value value : results)
    mapped.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, loc, mapped);
  return function;
}
