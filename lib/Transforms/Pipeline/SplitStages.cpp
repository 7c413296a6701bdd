//===- SplitStages.cpp - One function for each stage ----------------------===//

#include "Chain.h"
#include "StageMarks.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"
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

/// A chain, where it is cut, and what is wrong with that.
struct Choice {
  std::unique_ptr<Chain> chain;
  std::optional<std::vector<size_t>> cuts;
  std::string imbalance;
};

class Splitter {
public:
  Splitter(ModuleOp module, func::FuncOp main)
      : module(module), main(main), model(module), grid(GridAttr::lookup(module)) {}

  LogicalResult run(ArrayRef<int64_t> forcedCuts);

private:
  /// From little to much: more is computed again where stages have no work otherwise.
  static constexpr RecomputeLimits limits[] = {{0.01, false}, {0.1, false}, {0.1, true}};

  Choice makeChain(size_t stages, RecomputeLimits limits);
  /// The chain whose slowest stage is fastest; of equals the one that recomputes least. With
  /// marks, of those that can be cut between them; without a chain if none can.
  Choice choose(size_t stages, const StageMarks &marks = {});
  FailureOr<Choice> chooseAsked(size_t stages, ArrayRef<int64_t> forcedCuts);
  std::string suggest(size_t stages);
  func::FuncOp makeStage(const Chain &chain, size_t index, size_t begin, size_t end,
                         IRMapping &values, SmallVectorImpl<Value> &results,
                         OpBuilder &mainBuilder);

  ModuleOp module;
  func::FuncOp main;
  CostModel model;
  GridAttr grid;
};

Choice Splitter::makeChain(size_t stages, RecomputeLimits limits) {
  Choice choice;
  choice.chain = std::make_unique<Chain>(main, model, findRecomputed(main, model, stages, limits));
  return choice;
}

Choice Splitter::choose(size_t stages, const StageMarks &marks) {
  Choice best;
  double fastest = 0;
  size_t carried = 0;
  for (RecomputeLimits limit : limits) {
    Choice choice = makeChain(stages, limit);
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
    double slowest = choice.cuts ? choice.chain->getSlowest(*choice.cuts)
                                 : std::numeric_limits<double>::infinity();
    if (best.chain && slowest >= 0.99 * fastest)
      continue;
    best = std::move(choice);
    fastest = slowest;
  }
  if (best.cuts)
    best.imbalance = describeImbalance(*best.chain, model, *best.cuts);
  return best;
}

/// The largest number of stages below this one for which there is nothing to warn of.
std::string Splitter::suggest(size_t stages) {
  while (--stages > 1) {
    Choice choice = choose(stages);
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
      choice = choose(stages, *marks);
    }
    if (choice.cuts)
      return std::move(choice);
    Choice last = makeChain(stages, limits[std::size(limits) - 1]);
    if (succeeded(marks->getRanges(*last.chain, stages)))
      emitError(main.getLoc()) << "pp" << stages
                               << ": there is no way to cut into as many stages between the ops "
                                  "that say their stage";
    return failure();
  }
  // The places of the first chain that has so many.
  Choice choice;
  for (RecomputeLimits limit : limits) {
    Choice other = makeChain(stages, limit);
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
  size_t stages = grid.getAxisSize("pp");
  FailureOr<Choice> asked = chooseAsked(stages, forcedCuts);
  if (failed(asked))
    return failure();
  bool isAsked = bool(asked->chain);
  Choice choice = isAsked ? std::move(*asked) : choose(stages);
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
      if (countLayers(op) > 0)
        inLayers += model.getCost(op).seconds;
    double transfer = chain.getSendSeconds(begin) + chain.getSendSeconds(end);
    func::FuncOp stage = makeStage(chain, i, begin, end, values, delivered, builder);
    stage->setAttr("tpc.stage", attrs.getI64IntegerAttr(i));
    stage->setAttr(kSecondsAttr, attrs.getF64FloatAttr(cost.seconds));
    stage->setAttr(kLayerSecondsAttr, attrs.getF64FloatAttr(inLayers));
    stage->setAttr(kRecomputedSecondsAttr, attrs.getF64FloatAttr(again));
    stage->setAttr(kTransferSecondsAttr, attrs.getF64FloatAttr(transfer));
    stage->setAttr(kWeightBytesAttr, attrs.getI64IntegerAttr(int64_t(cost.weightBytes)));
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
