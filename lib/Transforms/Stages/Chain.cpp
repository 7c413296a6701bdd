//===- Chain.cpp - What is cut into stages --------------------------------===//

#include "Chain.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Stages/Cuts.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;

Chain::Chain(func::FuncOp main, CostModel &model, DenseSet<Operation *> recomputed)
    : main(main), model(model), recomputed(std::move(recomputed)) {
  for (Operation &op : main.front().without_terminator()) {
    if (this->recomputed.contains(&op))
      continue;
    position[&op] = carried.size();
    carried.push_back(&op);
  }
  findPlaces();
}

/// Uses as an output do not count: an output is delivered where it arises.
void Chain::findPlaces() {
  places.push_back({0, Value()});
  llvm::SetVector<Value> live;
  DenseMap<Value, size_t> lastUse; // by carried ops
  for (auto [i, op] : llvm::enumerate(carried))
    for (Value operand : op->getOperands())
      lastUse[operand] = i;
  for (size_t i = 0; i + 1 < carried.size(); ++i) {
    for (Value result : carried[i]->getResults())
      if (lastUse.count(result))
        live.insert(result);
    live.remove_if([&](Value value) { return lastUse[value] <= i; });
    // After a gather more would be sent than before it.
    if (live.size() == 1 && !getDist(live[0]).getPartial() &&
        !isa_and_nonnull<AllGatherOp>(live[0].getDefiningOp()))
      places.push_back({i + 1, live[0]});
  }
}

std::optional<size_t> Chain::getPosition(Operation *op) const {
  auto it = position.find(op);
  return it == position.end() ? std::nullopt : std::optional<size_t>(it->second);
}

ArrayRef<Operation *> Chain::getCarried(size_t from, size_t to) const {
  size_t begin = places[from].begin;
  size_t end = to < places.size() ? places[to].begin : carried.size();
  return ArrayRef(carried).slice(begin, end - begin);
}

/// The depth is bounded by how many ops a recomputed value may need.
void Chain::collect(Operation *op, llvm::SetVector<Operation *> &ops) const {
  if (ops.contains(op))
    return;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp(); producer && recomputed.contains(producer))
      collect(producer, ops);
  ops.insert(op);
}

llvm::SetVector<Operation *> Chain::getOps(size_t from, size_t to) const {
  llvm::SetVector<Operation *> ops;
  for (Operation *op : getCarried(from, to))
    collect(op, ops);
  return ops;
}

Cost Chain::getCost(size_t from, size_t to) {
  Cost cost;
  SmallVector<Operation *> parameters;
  for (Operation *op : getOps(from, to)) {
    cost += model.getCost(op);
    if (isa<ParameterOp>(op))
      parameters.push_back(op);
  }
  // What a tied head shares with the embedding is held once.
  cost.weightBytes = 0;
  for (ParameterOp parameter : getHeldParameters(parameters))
    cost.weightBytes += model.getBytes(parameter.getType());
  return cost;
}

double Chain::getRecomputedSeconds(size_t from, size_t to) {
  double sum = 0;
  for (Operation *op : getOps(from, to))
    if (recomputed.contains(op))
      sum += model.getCost(op).seconds;
  return sum;
}

Cost Chain::getMost(ArrayRef<size_t> cuts) {
  Cost most;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    Cost cost = getCost(i == 0 ? 0 : cuts[i - 1], i < cuts.size() ? cuts[i] : places.size());
    most.seconds = std::max(most.seconds, cost.seconds);
    most.weightBytes = std::max(most.weightBytes, cost.weightBytes);
  }
  return most;
}

double Chain::getSendSeconds(size_t place) const {
  return place == 0 || place == places.size() ? 0
                                              : model.getSendSeconds(places[place].live.getType());
}

/// All places or, of very many, about a thousand: from stretches that take equally long, the place
/// of each where least is sent, and of each range. Choosing takes time that grows with the square
/// of their number.
std::vector<size_t> Chain::getWindows(size_t stages, ArrayRef<StageRange> ranges) const {
  size_t most = std::max<size_t>(1024, 4 * stages);
  std::vector<size_t> all(places.size());
  std::iota(all.begin(), all.end(), 0);
  if (all.size() <= most)
    return all;
  double total = 0;
  for (Operation *op : carried)
    total += model.getCost(op).seconds;
  std::vector<size_t> kept = {0};
  double sum = 0;
  size_t last = 0, at = 0; // the stretch of the place that was kept last
  for (size_t place = 1; place < places.size(); ++place) {
    for (; at < places[place].begin; ++at)
      sum += model.getCost(carried[at]).seconds;
    size_t stretch = 1 + (total > 0 ? size_t(sum / total * double(most - 2))
                                    : place * (most - 2) / places.size());
    if (stretch != last)
      kept.push_back(place);
    else if (getSendSeconds(place) < getSendSeconds(kept.back()))
      kept.back() = place;
    last = stretch;
  }
  for (const StageRange &range : ranges) {
    std::optional<size_t> least;
    for (size_t place = 1; place < places.size(); ++place)
      if (range.contains(places[place].begin) &&
          (!least || getSendSeconds(place) <= getSendSeconds(*least)))
        least = place;
    if (least)
      kept.push_back(*least);
  }
  llvm::sort(kept);
  kept.erase(llvm::unique(kept), kept.end());
  return kept;
}

/// seconds[i][j]: a stage from window i to window j. One walk over the chain for each i, of what
/// is recomputed alone: carried ops are added up before.
void Chain::computeSeconds(size_t stages, ArrayRef<StageRange> ranges) {
  DenseSet<Operation *> costly; // recomputed ops that take time, with what they need
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
  std::vector<size_t> needing; // carried ops that need costly ones
  for (auto [i, op] : llvm::enumerate(carried)) {
    until[i + 1] = until[i] + model.getCost(op).seconds;
    bool needs = false;
    getCostly(op, [&](Operation *) { needs = true; });
    if (needs)
      needing.push_back(i);
  }

  windows = getWindows(stages, ranges);
  double least = std::numeric_limits<double>::infinity();
  for (size_t place : ArrayRef(windows).drop_front())
    least = std::min(least, getSendSeconds(place));
  std::vector<double> send(windows.size() + 1);
  for (size_t i = 1; i < windows.size(); ++i)
    send[i] = getSendSeconds(windows[i]) - least;

  seconds.assign(windows.size(), std::vector<double>(windows.size() + 1));
  for (size_t i = 0; i < windows.size(); ++i) {
    DenseSet<Operation *> seen;
    double again = 0;
    std::function<void(Operation *)> add = [&](Operation *op) {
      if (!seen.insert(op).second)
        return;
      again += model.getCost(op).seconds;
      getCostly(op, add);
    };
    size_t begin = places[windows[i]].begin;
    auto next = llvm::lower_bound(needing, begin);
    for (size_t j = i + 1; j <= windows.size(); ++j) {
      size_t end = j < windows.size() ? places[windows[j]].begin : carried.size();
      for (; next != needing.end() && *next < end; ++next)
        getCostly(carried[*next], add);
      seconds[i][j] = until[end] - until[begin] + again + send[i] + send[j];
    }
  }
}

std::optional<std::vector<size_t>> Chain::choose(size_t stages, ArrayRef<StageRange> ranges) {
  if (stages == 1)
    return std::vector<size_t>();
  if (places.size() < stages)
    return std::nullopt;
  if (seconds.empty())
    computeSeconds(stages, ranges);
  auto getBegin = [&](size_t i) {
    return i < windows.size() ? places[windows[i]].begin : carried.size();
  };
  auto cuts = chooseCuts(
      windows.size(), stages, [&](size_t i, size_t j) { return seconds[i][j]; }, 0.01,
      [&](size_t i, size_t j) { return until[getBegin(j)] - until[getBegin(i)]; },
      [&](size_t stage, size_t i) {
        return ranges.empty() || ranges[stage - 1].contains(getBegin(i));
      });
  if (cuts)
    for (size_t &cut : *cuts)
      cut = windows[cut];
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
