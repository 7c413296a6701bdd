//===- SplitStages.cpp - One function for each stage ----------------------===//

#include "Chain.h"
#include "LayerParts.h"
#include "StageMarks.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Stages/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SPLITSTAGES
#include "tpc/Transforms/Stages/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// A chain, where it is cut, and what is wrong with that.
struct Choice {
  std::unique_ptr<Chain> chain;
  std::optional<std::vector<size_t>> cuts;
  std::string imbalance;
  RecomputeLimits limits;
  Cost most = {std::numeric_limits<double>::infinity()}; // of all stages, one by one
};

class Splitter {
public:
  Splitter(ModuleOp module, func::FuncOp main)
      : module(module), main(main), model(module), grid(GridAttr::lookup(module)),
        layerParts(module) {}

  LogicalResult run(ArrayRef<int64_t> forcedCuts);

private:
  /// From little to much: more is computed again where stages have no work otherwise.
  static constexpr RecomputeLimits limits[] = {{0.01, RecomputeLimits::Else::Nothing},
                                               {0.1, RecomputeLimits::Else::Nothing},
                                               {0.1, RecomputeLimits::Else::Send}};

  /// A stage begins within a layer where the slowest one is faster by more than this, and by no
  /// smaller a factor than the fullest one grows.
  static constexpr double partsMustWin = 0.05;

  Choice makeChain(func::FuncOp main, size_t stages, RecomputeLimits limits);
  /// The chain whose slowest stage is fastest; of equals the one that recomputes least. With
  /// marks, of those that can be cut between them; without a chain if none can.
  Choice choose(func::FuncOp main, size_t stages, const StageMarks &marks = {});
  /// The same where stages may begin within layers, if that is better than `whole`.
  Choice chooseInParts(Choice whole, size_t stages, const StageMarks &marks = {});
  FailureOr<Choice> chooseAsked(size_t stages, ArrayRef<int64_t> forcedCuts);
  std::string suggest(size_t stages);
  func::FuncOp makeStage(const Chain &chain, size_t index, size_t begin, size_t end,
                         IRMapping &values, SmallVectorImpl<Value> &results,
                         OpBuilder &mainBuilder);

  ModuleOp module;
  func::FuncOp main;
  CostModel model;
  GridAttr grid;
  LayerParts layerParts;
};

Choice Splitter::makeChain(func::FuncOp main, size_t stages, RecomputeLimits limits) {
  Choice choice;
  choice.limits = limits;
  choice.chain = std::make_unique<Chain>(main, model, findRecomputed(main, model, stages, limits));
  return choice;
}

Choice Splitter::choose(func::FuncOp main, size_t stages, const StageMarks &marks) {
  Choice best;
  size_t carried = 0;
  for (RecomputeLimits limit : limits) {
    Choice choice = makeChain(main, stages, limit);
    // More may make no difference.
    if (best.chain && choice.chain->getCarried().size() == carried)
      continue;
    carried = choice.chain->getCarried().size();
    std::vector<StageRange> ranges;
    if (!marks.empty()) {
      auto found = marks.getRanges(*choice.chain, stages);
      if (failed(found))
        continue;
      ranges = *found;
    }
    choice.cuts = choice.chain->choose(stages, ranges);
    if (choice.cuts)
      choice.most = choice.chain->getMost(*choice.cuts);
    if (best.chain && choice.most.seconds >= 0.99 * best.most.seconds)
      continue;
    best = std::move(choice);
  }
  if (best.cuts)
    best.imbalance = describeImbalance(*best.chain, model, *best.cuts);
  return best;
}

Choice Splitter::chooseInParts(Choice whole, size_t stages, const StageMarks &marks) {
  // No stages are faster than equal ones.
  double total = 0;
  for (Operation &op : main.front().without_terminator())
    total += model.getCost(&op).seconds;
  if (stages == 1 || total / double(stages) >= (1 - partsMustWin) * whole.most.seconds)
    return whole;

  // A copy in which all layers are in parts shows what is best.
  IRMapping mapping;
  func::FuncOp copy = main.clone(mapping);
  copy.setName((main.getName() + "_in_parts").str());
  module.insert(std::next(main->getIterator()), copy);
  /// What an op of the copy stands for: an op of @main, and the place in its layer.
  DenseMap<Operation *, std::pair<Operation *, Operation *>> origin;
  DenseMap<Operation *, SmallVector<Operation *>> partsOf;
  for (Operation &op : main.front().without_terminator()) {
    auto call = dyn_cast<func::CallOp>(op);
    ArrayRef<Operation *> places = call ? layerParts.getPlaces(call) : ArrayRef<Operation *>();
    Operation *copied = mapping.lookup(&op);
    if (places.empty()) {
      origin[copied] = {&op, nullptr};
      partsOf[&op] = {copied};
      continue;
    }
    for (auto [k, part] : llvm::enumerate(layerParts.split(cast<func::CallOp>(copied), places))) {
      origin[part] = {&op, k == 0 ? nullptr : places[k - 1]};
      partsOf[&op].push_back(part);
    }
  }
  Choice inParts = choose(copy, stages, marks.apply(partsOf));
  bool isBetter = inParts.cuts && inParts.most.seconds < (1 - partsMustWin) * whole.most.seconds &&
                  (!whole.cuts || inParts.most.seconds * inParts.most.weightBytes <=
                                      whole.most.seconds * whole.most.weightBytes);
  SmallVector<std::pair<Operation *, Operation *>> begins;
  if (isBetter)
    for (size_t cut : *inParts.cuts)
      begins.push_back(origin[inParts.chain->getCarried()[inParts.chain->getPlaces()[cut].begin]]);
  inParts.chain.reset();
  copy.erase();
  if (!isBetter)
    return whole;

  // In @main, of the layers in which stages begin alone.
  whole.chain.reset();
  llvm::MapVector<Operation *, SmallVector<Operation *>> cutLayers;
  for (auto [op, place] : begins)
    if (place)
      cutLayers[op].push_back(place);
  SmallVector<Operation *> ops;
  DenseMap<Operation *, SmallVector<func::CallOp>> made;
  for (auto &[op, places] : cutLayers)
    made[op] = layerParts.split(cast<func::CallOp>(op), places);
  for (auto [op, place] : begins) {
    auto it = made.find(op);
    if (it == made.end())
      ops.push_back(op);
    else
      ops.push_back(
          it->second[place ? llvm::find(cutLayers[op], place) - cutLayers[op].begin() + 1 : 0]);
  }
  Choice choice = makeChain(main, stages, inParts.limits);
  choice.cuts.emplace();
  for (Operation *op : ops) {
    auto position = choice.chain->getPosition(op);
    auto at = llvm::find_if(choice.chain->getPlaces(), [&](const Chain::Place &place) {
      return place.live && place.begin == position;
    });
    assert(at != choice.chain->getPlaces().end() && "the same places, but for those in layers");
    choice.cuts->push_back(at - choice.chain->getPlaces().begin());
  }
  choice.most = inParts.most;
  choice.imbalance = describeImbalance(*choice.chain, model, *choice.cuts);
  return choice;
}

/// The largest number of stages below this one for which there is nothing to warn of.
std::string Splitter::suggest(size_t stages) {
  while (--stages > 1) {
    Choice choice = choose(main, stages);
    if (choice.cuts && choice.imbalance.empty())
      return "; with pp" + std::to_string(stages) + " all have work";
  }
  return "";
}

func::FuncOp Splitter::makeStage(const Chain &chain, size_t index, size_t begin, size_t end,
                                 IRMapping &values, SmallVectorImpl<Value> &delivered,
                                 OpBuilder &mainBuilder) {
  ArrayRef<Chain::Place> places = chain.getPlaces();
  bool final = end == places.size();
  size_t last = final ? chain.getCarried().size() : places[end].begin;
  Value received = places[begin].live;
  Value sent = final ? Value() : places[end].live;
  llvm::SetVector<Operation *> ops = chain.getOps(begin, end);
  Operation *terminator = main.front().getTerminator();

  // Outputs that arise here; what depends on inputs alone arises in the last stage.
  SmallVector<unsigned> outputs;
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    Operation *producer = value.getDefiningOp();
    auto at = producer ? chain.getPosition(producer) : std::nullopt;
    bool here = at ? *at >= places[begin].begin && *at < last : final;
    if (!here)
      continue;
    outputs.push_back(i);
    if (producer)
      chain.collect(producer, ops);
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
  func::FuncOp stage = cloneAsFunction(builder, main.getLoc(), "stage_" + std::to_string(index),
                                       ops.getArrayRef(), arguments, results);

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

/// Where the user or the file wants the cuts; without a chain if nobody does.
FailureOr<Choice> Splitter::chooseAsked(size_t stages, ArrayRef<int64_t> forcedCuts) {
  if (forcedCuts.empty()) {
    FailureOr<StageMarks> marks = StageMarks::take(module, main, stages);
    if (failed(marks))
      return failure();
    if (marks->empty())
      return Choice();
    Choice choice;
    {
      // The last one says why.
      ScopedDiagnosticHandler handler(module.getContext(), [](Diagnostic &) { return success(); });
      choice = chooseInParts(choose(main, stages, *marks), stages, *marks);
    }
    if (choice.cuts)
      return std::move(choice);
    Choice last = makeChain(main, stages, limits[std::size(limits) - 1]);
    if (succeeded(marks->getRanges(*last.chain, stages)))
      emitError(main.getLoc()) << "pp" << stages
                               << ": there is no way to cut into as many stages between the ops "
                                  "that say their stage";
    return failure();
  }
  // The places of the first chain that has so many.
  Choice choice;
  for (RecomputeLimits limit : limits) {
    Choice other = makeChain(main, stages, limit);
    if (choice.chain && other.chain->getPlaces().size() <= choice.chain->getPlaces().size())
      continue;
    choice = std::move(other);
    if (int64_t(choice.chain->getPlaces().size()) > *llvm::max_element(forcedCuts) + 1)
      break;
  }
  choice.cuts.emplace();
  size_t places = choice.chain->getPlaces().size();
  for (int64_t cut : forcedCuts) {
    if (cut < 0 || size_t(cut) + 1 >= places ||
        (!choice.cuts->empty() && size_t(cut) + 1 <= choice.cuts->back()))
      return emitError(main.getLoc()) << "cuts: " << cut << " is not one of the " << places - 1
                                      << " places to cut (from 0), or not in order";
    choice.cuts->push_back(cut + 1);
  }
  if (choice.cuts->size() + 1 != stages)
    return emitError(main.getLoc()) << "cuts: pp" << stages << " takes " << stages - 1
                                    << " cuts, not " << choice.cuts->size();
  return std::move(choice);
}

LogicalResult Splitter::run(ArrayRef<int64_t> forcedCuts) {
  if (failed(model.check()))
    return failure();
  size_t stages = grid.getAxisSize("pp");
  FailureOr<Choice> asked = chooseAsked(stages, forcedCuts);
  if (failed(asked))
    return failure();
  bool isAsked = bool(asked->chain);
  Choice choice = isAsked ? std::move(*asked) : chooseInParts(choose(main, stages), stages);
  Chain &chain = *choice.chain;
  size_t places = chain.getPlaces().size();
  if (!choice.cuts)
    return emitError(main.getLoc())
           << "pp" << stages << ": the model can be cut into at most " << places
           << " pipeline stages (there are " << places - 1
           << " places where one activation alone is live)" << suggest(places + 1);
  if (!choice.imbalance.empty())
    warnOfPlan(module, choice.imbalance + (isAsked ? "" : suggest(stages)));

  Builder attrs(module.getContext());
  OpBuilder builder(main.front().getTerminator());
  IRMapping values;
  SmallVector<Value> delivered(main.getNumResults());
  SmallVector<Operation *> old;
  for (Operation &op : main.front().without_terminator())
    old.push_back(&op);
  SmallVector<size_t> begins = {0};
  llvm::append_range(begins, *choice.cuts);
  begins.push_back(places);
  for (size_t i = 0; i < stages; ++i) {
    size_t begin = begins[i], end = begins[i + 1];
    Cost cost = chain.getCost(begin, end);
    double again = chain.getRecomputedSeconds(begin, end), inLayers = 0;
    for (Operation *op : chain.getCarried(begin, end))
      if (isOfLayers(op))
        inLayers += model.getCost(op).seconds;
    double transfer = chain.getSendSeconds(begin) + chain.getSendSeconds(end);
    func::FuncOp stage = makeStage(chain, i, begin, end, values, delivered, builder);
    stage->setAttr(kStageAttr, attrs.getI64IntegerAttr(i));
    stage->setAttr(kSecondsAttr, attrs.getF64FloatAttr(cost.seconds));
    stage->setAttr(kLayerSecondsAttr, attrs.getF64FloatAttr(inLayers));
    stage->setAttr(kRecomputedSecondsAttr, attrs.getF64FloatAttr(again));
    stage->setAttr(kTransferSecondsAttr, attrs.getF64FloatAttr(transfer));
    stage->setAttr(kWeightBytesAttr, attrs.getI64IntegerAttr(int64_t(cost.weightBytes)));
  }
  main.front().getTerminator()->setOperands(delivered);
  for (Operation *op : llvm::reverse(old))
    op->erase();
  layerParts.eraseUnused();
  return success();
}

struct SplitStages : public mlir::tpc::impl::SplitStagesBase<SplitStages> {
  using SplitStagesBase::SplitStagesBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !GridAttr::lookup(module)) {
      emitError(module.getLoc()) << "needs a function @main and a " << kGridAttr
                                 << ": run the passes of sharding first";
      return signalPassFailure();
    }
    if (failed(Splitter(module, main).run(cuts)))
      signalPassFailure();
  }
};

} // namespace
