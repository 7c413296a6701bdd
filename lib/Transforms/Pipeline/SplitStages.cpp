//===- SplitStages.cpp - One function for each stage ----------------------===//

#include "tpc/Analysis/Cost.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Pipeline/Cuts.h"
#include "tpc/Transforms/Pipeline/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SPLITSTAGES
#include "tpc/Transforms/Pipeline/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Splitter {
public:
  Splitter(ModuleOp module, func::FuncOp main)
      : module(module), main(main), model(module), grid(GridAttr::lookup(module)) {}

  LogicalResult run(ArrayRef<int64_t> forcedCuts);

private:
  bool isCheap(Operation *op) const;
  void classify();
  void findCuts();
  void collectCheap(Operation *op, llvm::SetVector<Operation *> &out) const;
  SmallVector<Operation *> getStageOps(size_t begin, size_t end) const;
  Cost getStageCost(size_t begin, size_t end);
  double getSendSeconds(size_t place) const;
  std::vector<std::vector<double>> getSeconds();
  FailureOr<std::vector<size_t>> getMarkedCuts();
  func::FuncOp makeStage(size_t index, size_t begin, size_t end, IRMapping &values,
                         SmallVectorImpl<Value> &results, OpBuilder &mainBuilder);

  ModuleOp module;
  func::FuncOp main;
  CostModel model;
  GridAttr grid;
  SmallVector<Operation *> carried; // ops that run in one stage only, in order
  DenseMap<Operation *, size_t> position;
  /// Where a stage may begin: index into `carried`, and the value that is live
  /// there. The first entry is the beginning, without a value.
  SmallVector<std::pair<size_t, Value>> places;
};

/// Whether an op may be computed again in each stage that needs it, provided that
/// its operands may be. Products, norms and lookups in embeddings are not worth
/// it, communication must not be repeated.
bool Splitter::isCheap(Operation *op) const {
  if (isa<MatmulOp, AttentionOp, LayerNormOp, RmsNormOp, SoftmaxOp, EmbeddingOp, RotaryOp>(op))
    return false;
  return isa<ShardingRuleOpInterface, LocalSliceOp>(op);
}

void Splitter::classify() {
  DenseSet<Value> again(main.getArguments().begin(), main.getArguments().end());
  for (Operation &op : main.front().without_terminator()) {
    bool cheap =
        isCheap(&op) && llvm::all_of(op.getOperands(), [&](Value v) { return again.contains(v); });
    if (cheap) {
      again.insert(op.getResults().begin(), op.getResults().end());
      continue;
    }
    position[&op] = carried.size();
    carried.push_back(&op);
  }
}

/// A place between two carried ops where one of their values is live. Uses as an
/// output do not count: an output is delivered where it arises.
void Splitter::findCuts() {
  places.push_back({0, Value()});
  llvm::SetVector<Value> live;
  DenseMap<Value, size_t> lastUse; // by carried ops
  for (auto [i, op] : llvm::enumerate(carried))
    for (Value operand : op->getOperands())
      lastUse[operand] = i;
  for (size_t i = 0; i < carried.size(); ++i) {
    for (Value result : carried[i]->getResults())
      if (lastUse.count(result))
        live.insert(result);
    live.remove_if([&](Value value) { return lastUse[value] <= i; });
    // After a gather more would be sent than before it.
    if (i + 1 < carried.size() && live.size() == 1 && !getDist(live[0]).getPartial() &&
        !isa_and_nonnull<AllGatherOp>(live[0].getDefiningOp()))
      places.push_back({i + 1, live[0]});
  }
}

/// Cheap ops that `op` needs, operands before users.
void Splitter::collectCheap(Operation *op, llvm::SetVector<Operation *> &out) const {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || position.contains(producer) || out.contains(producer))
      continue;
    collectCheap(producer, out);
    out.insert(producer);
  }
}

/// All ops of a stage that has carried ops [begin, end), in order.
SmallVector<Operation *> Splitter::getStageOps(size_t begin, size_t end) const {
  llvm::SetVector<Operation *> ops;
  for (size_t i = begin; i < end; ++i) {
    collectCheap(carried[i], ops);
    ops.insert(carried[i]);
  }
  return ops.takeVector();
}

Cost Splitter::getStageCost(size_t begin, size_t end) {
  Cost cost;
  SmallVector<Operation *> parameters;
  for (Operation *op : getStageOps(begin, end)) {
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

/// What it takes to send what is live at a place; nothing at the end.
double Splitter::getSendSeconds(size_t place) const {
  if (place == places.size())
    return 0;
  return model.getSendSeconds(places[place].second.getType());
}

/// Seconds of a stage from place i to place j, for all i < j: [i][j]. One walk for each i.
std::vector<std::vector<double>> Splitter::getSeconds() {
  DenseMap<Operation *, double> known;
  auto secondsOf = [&](Operation *op) {
    auto [it, isNew] = known.try_emplace(op, 0);
    return isNew ? it->second = model.getCost(op).seconds : it->second;
  };
  std::vector<double> send;
  for (size_t place = 0; place <= places.size(); ++place)
    send.push_back(place ? getSendSeconds(place) : 0);
  std::vector<std::vector<double>> seconds(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    seconds[i].resize(places.size() + 1);
    llvm::SetVector<Operation *> ops;
    double sum = 0;
    size_t at = places[i].first;
    for (size_t j = i + 1; j <= places.size(); ++j) {
      size_t before = ops.size();
      for (size_t end = j < places.size() ? places[j].first : carried.size(); at < end; ++at) {
        collectCheap(carried[at], ops);
        ops.insert(carried[at]);
      }
      for (Operation *op : ArrayRef(ops.getArrayRef()).drop_front(before))
        sum += secondsOf(op);
      seconds[i][j] = sum + send[j];
    }
  }
  return seconds;
}

/// Where stages begin if ops say in which stage they are to be (`tpc.pipeline_stage`); empty if
/// none does.
FailureOr<std::vector<size_t>> Splitter::getMarkedCuts() {
  int64_t stages = grid.getAxisSize("pp");
  SmallVector<std::optional<int64_t>> marks;
  bool any = false;
  Operation *before = nullptr; // the last op that says its stage
  int64_t current = 0;
  for (Operation *op : carried) {
    auto mark = op->getAttrOfType<IntegerAttr>(kPipelineStageAttr);
    marks.push_back(mark ? std::optional<int64_t>(mark.getInt()) : std::nullopt);
    if (!mark)
      continue;
    if (mark.getInt() < 0 || mark.getInt() >= stages)
      return op->emitError() << "'" << getSourceName(op->getLoc())
                             << "' is to be in pipeline stage " << mark.getInt()
                             << ", but the grid has pp" << stages;
    if (mark.getInt() < current)
      return op->emitError() << "'" << getSourceName(op->getLoc())
                             << "' is to be in pipeline stage " << mark.getInt()
                             << ", but it comes after '" << getSourceName(before->getLoc())
                             << "' of stage " << current;
    any = true;
    before = op;
    current = mark.getInt();
  }
  main.walk([](Operation *op) { op->removeDiscardableAttr(kPipelineStageAttr); });
  std::vector<size_t> cuts;
  if (!any || stages == 1)
    return cuts;

  auto nameAt = [&](size_t i) { return "'" + getSourceName(carried[i]->getLoc()) + "'"; };
  for (int64_t stage = 1; stage < stages; ++stage) {
    // The stage begins after all ops of those before it, and not after the first of its own.
    size_t low = 0, high = carried.size();
    for (auto [i, mark] : llvm::enumerate(marks)) {
      if (mark && *mark < stage)
        low = i + 1;
      if (mark && *mark >= stage)
        high = std::min<size_t>(high, i);
    }
    if (low == 0 || high == carried.size())
      return emitError(main.getLoc())
             << "no op is to be in pipeline stage " << (low == 0 ? stage - 1 : stage)
             << ", but the grid has pp" << stages;
    std::optional<size_t> best;
    double least = 0;
    for (size_t place = 1; place < places.size(); ++place) {
      if (places[place].first < low || places[place].first > high)
        continue;
      double seconds = getSendSeconds(place);
      if (!best || seconds <= least) {
        best = place;
        least = seconds;
      }
    }
    if (!best) {
      InFlightDiagnostic diag = carried[high]->emitError()
                                << "pipeline stage " << stage << " cannot begin with "
                                << nameAt(high) << ": between it and " << nameAt(low - 1)
                                << " more than one activation is live";
      for (size_t place = 1; place < places.size(); ++place)
        if (places[place].first > high) {
          diag << "; it may begin with " << nameAt(places[place].first);
          break;
        }
      return diag;
    }
    if (!cuts.empty() && *best <= cuts.back())
      return emitError(main.getLoc()) << "pipeline stage " << stage - 1 << " has no op of its own";
    cuts.push_back(*best);
  }
  return cuts;
}

func::FuncOp Splitter::makeStage(size_t index, size_t begin, size_t end, IRMapping &values,
                                 SmallVectorImpl<Value> &delivered, OpBuilder &mainBuilder) {
  size_t first = places[begin].first;
  size_t last = end < places.size() ? places[end].first : carried.size();
  Value received = places[begin].second;
  Value sent = end < places.size() ? places[end].second : Value();
  SmallVector<Operation *> ops = getStageOps(first, last);
  Operation *terminator = main.front().getTerminator();
  bool final = end == places.size();

  // Outputs that arise here; what depends on inputs alone arises in the last stage.
  SmallVector<unsigned> outputs;
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    Operation *producer = value.getDefiningOp();
    auto it = producer ? position.find(producer) : position.end();
    bool here = it == position.end() ? final : it->second >= first && it->second < last;
    if (!here)
      continue;
    outputs.push_back(i);
    if (it == position.end() && producer && !llvm::is_contained(ops, producer)) {
      llvm::SetVector<Operation *> cheap(ops.begin(), ops.end());
      collectCheap(producer, cheap);
      cheap.insert(producer);
      ops = cheap.takeVector();
    }
  }

  // Arguments: what the stage before sends, then the inputs that are used.
  SmallVector<Value> arguments;
  if (received)
    arguments.push_back(received);
  DenseSet<Value> used;
  for (Operation *op : ops)
    used.insert(op->operand_begin(), op->operand_end());
  for (unsigned i : outputs)
    used.insert(terminator->getOperand(i));
  for (BlockArgument input : main.getArguments())
    if (used.contains(input))
      arguments.push_back(input);

  SmallVector<Value> results;
  if (sent)
    results.push_back(sent);
  for (unsigned i : outputs)
    results.push_back(terminator->getOperand(i));

  OpBuilder builder(main);
  std::string name = "stage_" + std::to_string(index);
  auto stage =
      func::FuncOp::create(builder, main.getLoc(), name,
                           FunctionType::get(module.getContext(), TypeRange(ValueRange(arguments)),
                                             TypeRange(ValueRange(results))));
  stage.setPrivate();
  Block *body = stage.addEntryBlock();
  IRMapping mapping;
  for (auto [value, argument] : llvm::zip(arguments, body->getArguments()))
    mapping.map(value, argument);
  builder.setInsertionPointToStart(body);
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  SmallVector<Value> mapped;
  for (Value value : results)
    mapped.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, main.getLoc(), mapped);

  SmallVector<Value> operands;
  for (Value value : arguments)
    operands.push_back(values.lookupOrDefault(value));
  auto call = func::CallOp::create(mainBuilder, main.getLoc(), stage, operands);
  unsigned next = 0;
  if (sent)
    values.map(sent, call.getResult(next++));
  for (unsigned i : outputs)
    delivered[i] = call.getResult(next++);
  return stage;
}

LogicalResult Splitter::run(ArrayRef<int64_t> forcedCuts) {
  classify();
  findCuts();
  size_t stages = grid.getAxisSize("pp");

  // Pieces between places; the last one ends with the program.
  auto costOf = [&](size_t begin, size_t end) {
    size_t last = end < places.size() ? places[end].first : carried.size();
    Cost cost = getStageCost(places[begin].first, last);
    cost.seconds += getSendSeconds(end);
    return cost;
  };
  FailureOr<std::vector<size_t>> marked = getMarkedCuts();
  if (failed(marked))
    return failure();
  std::optional<std::vector<size_t>> cuts;
  if (!marked->empty() && forcedCuts.empty()) {
    cuts = *marked;
  } else if (!forcedCuts.empty()) {
    cuts.emplace();
    for (int64_t cut : forcedCuts) {
      if (cut < 0 || size_t(cut) + 1 >= places.size() ||
          (!cuts->empty() && size_t(cut) + 1 <= cuts->back()))
        return emitError(main.getLoc())
               << "cuts: " << cut << " is not one of the " << places.size() - 1
               << " places to cut (from 0), or not in order";
      cuts->push_back(cut + 1);
    }
    if (cuts->size() + 1 != stages)
      return emitError(main.getLoc())
             << "cuts: pp" << stages << " takes " << stages - 1 << " cuts, not " << cuts->size();
  } else {
    std::vector<std::vector<double>> seconds = getSeconds();
    cuts = chooseCuts(places.size(), stages, [&](size_t i, size_t j) { return seconds[i][j]; });
  }
  if (!cuts)
    return emitError(main.getLoc())
           << "pp" << stages << ": the model can be cut into at most " << places.size()
           << " pipeline stages (there are " << places.size() - 1
           << " places where one activation alone is live); use pp" << places.size() << " or less";

  Builder attrs(module.getContext());
  OpBuilder builder(main.front().getTerminator());
  IRMapping values;
  SmallVector<Value> delivered(main.getNumResults());
  SmallVector<Operation *> old;
  for (Operation &op : main.front().without_terminator())
    old.push_back(&op);
  cuts->insert(cuts->begin(), 0);
  cuts->push_back(places.size());
  for (size_t i = 0; i < stages; ++i) {
    Cost cost = costOf((*cuts)[i], (*cuts)[i + 1]);
    func::FuncOp stage = makeStage(i, (*cuts)[i], (*cuts)[i + 1], values, delivered, builder);
    stage->setAttr("tpc.stage", attrs.getI64IntegerAttr(i));
    stage->setAttr("tpc.seconds", attrs.getF64FloatAttr(cost.seconds));
    stage->setAttr("tpc.weight_bytes", attrs.getI64IntegerAttr(int64_t(cost.weightBytes)));
  }
  main.front().getTerminator()->setOperands(delivered);
  for (Operation *op : llvm::reverse(old))
    op->erase();
  return success();
}

struct SplitStages : public mlir::tpc::impl::SplitStagesBase<SplitStages> {
  using SplitStagesBase::SplitStagesBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !GridAttr::lookup(module)) {
      emitError(module.getLoc()) << "needs a function @main and a " << TpcDialect::kGridAttr
                                 << ": run the passes of sharding first";
      return signalPassFailure();
    }
    if (failed(Splitter(module, main).run(cuts)))
      signalPassFailure();
  }
};

} // namespace
