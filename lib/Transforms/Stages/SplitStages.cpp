//===- SplitStages.cpp - Division of @main into pipeline stages -----------===//

#include "Accumulation.h"
#include "LayerSplitter.h"
#include "PipelineChain.h"
#include "StageAnnotations.h"

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

/// Chain with its cuts and their imbalance.
struct StagePartition {
  std::unique_ptr<PipelineChain> chain;
  std::optional<std::vector<size_t>> cuts;
  std::string imbalance;
  RecomputeLimits limits;
  Cost maxCost = {std::numeric_limits<double>::infinity()}; // maximum over all stages, per field
};

class Splitter {
public:
  Splitter(ModuleOp module, func::FuncOp main)
      : module(module), main(main), model(module), grid(MeshAttr::lookup(module)),
        layerSplitter(module) {}

  LogicalResult run(ArrayRef<int64_t> forcedCuts);

private:
  /// Recomputation limits in increasing order. A later limit is used if it makes the slowest stage
  /// more than 1% faster.
  static constexpr RecomputeLimits limits[] = {{0.01, RecomputeLimits::Alternative::None},
                                               {0.1, RecomputeLimits::Alternative::None},
                                               {0.1, RecomputeLimits::Alternative::Send}};

  /// Minimum relative gain of the slowest stage for a cut within a layer. The gain must also be no
  /// smaller than the growth of the maximum weight bytes.
  static constexpr double minGainWithinLayers = 0.05;

  StagePartition makeChain(func::FuncOp main, size_t stages, RecomputeLimits limits);
  /// Returns the partition with the minimum time of the slowest stage; for equal times, with the
  /// fewest recomputed ops. With annotations, considers only chains that can be cut between
  /// annotated ops. The chain is null if there is none.
  StagePartition choose(func::FuncOp main, size_t stages, const StageAnnotations &annotations = {});
  /// Returns a partition with stages that begin within layers if it is better than `whole`, else
  /// `whole`.
  StagePartition chooseWithinLayers(StagePartition whole, size_t stages,
                                    const StageAnnotations &annotations = {});
  FailureOr<StagePartition> chooseRequested(size_t stages, ArrayRef<int64_t> forcedCuts);
  std::string suggest(size_t stages);
  /// Returns "pp4", or "pp2,vpp2" for the four chunks of two ranks.
  std::string describe(size_t stages) const;
  func::FuncOp makeStage(const PipelineChain &chain, size_t index, size_t begin, size_t end,
                         IRMapping &values, SmallVectorImpl<Value> &results,
                         OpBuilder &mainBuilder);

  ModuleOp module;
  func::FuncOp main;
  CostModel model;
  MeshAttr grid;
  LayerSplitter layerSplitter;
};

StagePartition Splitter::makeChain(func::FuncOp main, size_t stages, RecomputeLimits limits) {
  StagePartition choice;
  choice.limits = limits;
  choice.chain =
      std::make_unique<PipelineChain>(main, model, findRecomputed(main, model, stages, limits));
  return choice;
}

StagePartition Splitter::choose(func::FuncOp main, size_t stages,
                                const StageAnnotations &annotations) {
  StagePartition best;
  size_t carried = 0;
  for (RecomputeLimits limit : limits) {
    StagePartition choice = makeChain(main, stages, limit);
    // Skip limits with the same carried ops.
    if (best.chain && choice.chain->getCarried().size() == carried)
      continue;
    carried = choice.chain->getCarried().size();
    std::vector<StageBeginRange> ranges;
    if (!annotations.empty()) {
      auto found = annotations.getRanges(*choice.chain, stages);
      if (failed(found))
        continue;
      ranges = *found;
    }
    choice.cuts = choice.chain->choose(stages, ranges);
    if (choice.cuts)
      choice.maxCost = choice.chain->getMaxCost(*choice.cuts);
    if (best.chain && choice.maxCost.seconds >= 0.99 * best.maxCost.seconds)
      continue;
    best = std::move(choice);
  }
  if (best.cuts)
    best.imbalance = describeImbalance(*best.chain, model, *best.cuts, grid.getChunksPerRank());
  return best;
}

StagePartition Splitter::chooseWithinLayers(StagePartition whole, size_t stages,
                                            const StageAnnotations &annotations) {
  // No partition is better than stages of equal time, so their gain must suffice.
  double total = 0;
  for (Operation &op : main.front().without_terminator())
    total += model.getCost(&op).seconds;
  if (stages == 1 || total / double(stages) >= (1 - minGainWithinLayers) * whole.maxCost.seconds)
    return whole;

  // Evaluates a copy in which all layers are split.
  IRMapping mapping;
  func::FuncOp copy = main.clone(mapping);
  copy.setName((main.getName() + "_in_parts").str());
  module.insert(std::next(main->getIterator()), copy);
  /// Origin of each op of the copy: an op of @main, and the op that its segment begins with.
  DenseMap<Operation *, std::pair<Operation *, Operation *>> origin;
  DenseMap<Operation *, SmallVector<Operation *>> segmentsOf;
  for (Operation &op : main.front().without_terminator()) {
    auto call = dyn_cast<func::CallOp>(op);
    ArrayRef<Operation *> cutPoints =
        call ? layerSplitter.getCutPoints(call) : ArrayRef<Operation *>();
    Operation *copied = mapping.lookup(&op);
    if (cutPoints.empty()) {
      origin[copied] = {&op, nullptr};
      segmentsOf[&op] = {copied};
      continue;
    }
    for (auto [k, segment] :
         llvm::enumerate(layerSplitter.split(cast<func::CallOp>(copied), cutPoints))) {
      origin[segment] = {&op, k == 0 ? nullptr : cutPoints[k - 1]};
      segmentsOf[&op].push_back(segment);
    }
  }
  StagePartition withinLayers = choose(copy, stages, annotations.apply(segmentsOf));
  bool isBetter =
      withinLayers.cuts &&
      withinLayers.maxCost.seconds < (1 - minGainWithinLayers) * whole.maxCost.seconds &&
      (!whole.cuts || withinLayers.maxCost.seconds * withinLayers.maxCost.weightBytes <=
                          whole.maxCost.seconds * whole.maxCost.weightBytes);
  SmallVector<std::pair<Operation *, Operation *>> begins;
  if (isBetter)
    for (size_t cut : *withinLayers.cuts)
      begins.push_back(
          origin[withinLayers.chain->getCarried()[withinLayers.chain->getCutPoints()[cut].begin]]);
  withinLayers.chain.reset();
  copy.erase();
  if (!isBetter)
    return whole;

  // Splits only the layers of @main in which a stage begins.
  whole.chain.reset();
  llvm::MapVector<Operation *, SmallVector<Operation *>> cutLayers;
  for (auto [op, cutPoint] : begins)
    if (cutPoint)
      cutLayers[op].push_back(cutPoint);
  SmallVector<Operation *> ops;
  DenseMap<Operation *, SmallVector<func::CallOp>> segments;
  for (auto &[op, cutPoints] : cutLayers)
    segments[op] = layerSplitter.split(cast<func::CallOp>(op), cutPoints);
  for (auto [op, cutPoint] : begins) {
    auto it = segments.find(op);
    if (it == segments.end())
      ops.push_back(op);
    else
      ops.push_back(
          it->second[cutPoint ? llvm::find(cutLayers[op], cutPoint) - cutLayers[op].begin() + 1
                              : 0]);
  }
  StagePartition choice = makeChain(main, stages, withinLayers.limits);
  choice.cuts.emplace();
  for (Operation *op : ops) {
    auto position = choice.chain->getPosition(op);
    auto at =
        llvm::find_if(choice.chain->getCutPoints(), [&](const PipelineChain::CutPoint &cutPoint) {
          return cutPoint.live && cutPoint.begin == position;
        });
    assert(at != choice.chain->getCutPoints().end() &&
           "same cut points, except those within layers");
    choice.cuts->push_back(at - choice.chain->getCutPoints().begin());
  }
  choice.maxCost = withinLayers.maxCost;
  choice.imbalance = describeImbalance(*choice.chain, model, *choice.cuts, grid.getChunksPerRank());
  return choice;
}

std::string Splitter::describe(size_t stages) const {
  int64_t chunks = grid.getChunksPerRank();
  std::string text = kPipelineAxis.str() + std::to_string(int64_t(stages) / chunks);
  return chunks == 1 ? text : text + ",vpp" + std::to_string(chunks);
}

/// Suggests the largest number below `stages` without an imbalance, for the same pp if there are
/// several chunks per rank.
std::string Splitter::suggest(size_t stages) {
  size_t ranks = grid.getAxisSize(kPipelineAxis);
  bool hasChunks = grid.getChunksPerRank() > 1;
  while (--stages > 1) {
    if (hasChunks && stages % ranks)
      continue;
    StagePartition choice = choose(main, stages);
    if (!choice.cuts || !choice.imbalance.empty())
      continue;
    if (!hasChunks)
      return "; with pp" + std::to_string(stages) + " all stages have work";
    return "; with pp" + std::to_string(ranks) + ",vpp" + std::to_string(stages / ranks) +
           " all chunks have work";
  }
  return "";
}

func::FuncOp Splitter::makeStage(const PipelineChain &chain, size_t index, size_t begin, size_t end,
                                 IRMapping &values, SmallVectorImpl<Value> &delivered,
                                 OpBuilder &mainBuilder) {
  ArrayRef<PipelineChain::CutPoint> cutPoints = chain.getCutPoints();
  bool final = end == cutPoints.size();
  size_t last = final ? chain.getCarried().size() : cutPoints[end].begin;
  Value received = cutPoints[begin].live;
  Value sent = final ? Value() : cutPoints[end].live;
  llvm::SetVector<Operation *> ops = chain.getOps(begin, end);
  Operation *terminator = main.front().getTerminator();

  // Outputs that this stage computes. Outputs that depend only on inputs are computed by the last
  // stage.
  SmallVector<unsigned> outputs;
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    Operation *producer = value.getDefiningOp();
    auto at = producer ? chain.getPosition(producer) : std::nullopt;
    bool here = at ? *at >= cutPoints[begin].begin && *at < last : final;
    if (!here)
      continue;
    outputs.push_back(i);
    if (producer)
      chain.collect(producer, ops);
  }

  // Arguments: the value received from the previous stage, then the used inputs.
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
  std::string name = (grid.getChunksPerRank() == 1 ? "stage_" : "chunk_") + std::to_string(index);
  func::FuncOp stage =
      cloneAsFunction(builder, main.getLoc(), name, ops.getArrayRef(), arguments, results);

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

/// Returns the partition requested by the option `cuts` or by annotations; the chain is null
/// without a request.
FailureOr<StagePartition> Splitter::chooseRequested(size_t stages, ArrayRef<int64_t> forcedCuts) {
  if (forcedCuts.empty()) {
    FailureOr<StageAnnotations> annotations = StageAnnotations::take(module, main, stages);
    if (failed(annotations))
      return failure();
    if (annotations->empty())
      return StagePartition();
    if (int64_t chunks = grid.getChunksPerRank(); chunks > 1)
      return emitError(main.getLoc())
             << "vpp" << chunks << ": ops are annotated with pipeline stages, which are ranks of "
             << "pp with one chunk each; remove vpp or the annotations";
    StagePartition choice;
    {
      // The last attempt reports the reason.
      ScopedDiagnosticHandler handler(module.getContext(), [](Diagnostic &) { return success(); });
      choice = chooseWithinLayers(choose(main, stages, *annotations), stages, *annotations);
    }
    if (choice.cuts)
      return std::move(choice);
    StagePartition last = makeChain(main, stages, limits[std::size(limits) - 1]);
    if (succeeded(annotations->getRanges(*last.chain, stages)))
      emitError(main.getLoc()) << kPipelineAxis << stages
                               << ": no cuts between the ops with stage annotations "
                                  "result in this number of stages";
    return failure();
  }
  // Uses the first chain with enough cut points.
  StagePartition choice;
  for (RecomputeLimits limit : limits) {
    StagePartition other = makeChain(main, stages, limit);
    if (choice.chain && other.chain->getCutPoints().size() <= choice.chain->getCutPoints().size())
      continue;
    choice = std::move(other);
    if (int64_t(choice.chain->getCutPoints().size()) > *llvm::max_element(forcedCuts) + 1)
      break;
  }
  choice.cuts.emplace();
  size_t cutPoints = choice.chain->getCutPoints().size();
  for (int64_t cut : forcedCuts) {
    if (cut < 0 || size_t(cut) + 1 >= cutPoints ||
        (!choice.cuts->empty() && size_t(cut) + 1 <= choice.cuts->back()))
      return emitError(main.getLoc()) << "cuts: " << cut << " is not one of the " << cutPoints - 1
                                      << " cut points (from 0), or not in order";
    choice.cuts->push_back(cut + 1);
  }
  if (choice.cuts->size() + 1 != stages)
    return emitError(main.getLoc()) << "cuts: " << describe(stages) << " takes " << stages - 1
                                    << " cuts, not " << choice.cuts->size();
  return std::move(choice);
}

LogicalResult Splitter::run(ArrayRef<int64_t> forcedCuts) {
  if (failed(model.check()))
    return failure();
  size_t stages = grid.getAxisSize(kPipelineAxis) * grid.getChunksPerRank();
  FailureOr<StagePartition> requested = chooseRequested(stages, forcedCuts);
  if (failed(requested))
    return failure();
  bool isRequested = bool(requested->chain);
  StagePartition choice =
      isRequested ? std::move(*requested) : chooseWithinLayers(choose(main, stages), stages);
  PipelineChain &chain = *choice.chain;
  size_t cutPoints = chain.getCutPoints().size();
  if (!choice.cuts)
    return emitError(main.getLoc())
           << describe(stages) << ": the model can be cut into at most " << cutPoints
           << (grid.getChunksPerRank() == 1 ? " pipeline stages" : " chunks") << " (there are "
           << cutPoints - 1 << " cut points where only one activation is live)"
           << suggest(cutPoints + 1);
  if (!choice.imbalance.empty())
    warnAboutPlan(module, choice.imbalance + (isRequested ? "" : suggest(stages)));

  Builder attrs(module.getContext());
  OpBuilder builder(main.front().getTerminator());
  IRMapping values;
  SmallVector<Value> delivered(main.getNumResults());
  SmallVector<Operation *> old;
  for (Operation &op : main.front().without_terminator())
    old.push_back(&op);
  SmallVector<size_t> begins = {0};
  llvm::append_range(begins, *choice.cuts);
  begins.push_back(cutPoints);
  for (size_t i = 0; i < stages; ++i) {
    size_t begin = begins[i], end = begins[i + 1];
    Cost cost = chain.getCost(begin, end);
    double recomputed = chain.getRecomputedSeconds(begin, end), inLayers = 0;
    for (Operation *op : chain.getCarried(begin, end))
      if (callsLayers(op))
        inLayers += model.getCost(op).seconds;
    double transfer = chain.getSendSeconds(begin) + chain.getSendSeconds(end);
    func::FuncOp stage = makeStage(chain, i, begin, end, values, delivered, builder);
    stage->setAttr(kStageAttr, attrs.getI64IntegerAttr(i));
    stage->setAttr(kSecondsAttr, attrs.getF64FloatAttr(cost.seconds));
    stage->setAttr(kLayerSecondsAttr, attrs.getF64FloatAttr(inLayers));
    stage->setAttr(kRecomputedSecondsAttr, attrs.getF64FloatAttr(recomputed));
    stage->setAttr(kTransferSecondsAttr, attrs.getF64FloatAttr(transfer));
    stage->setAttr(kWeightBytesAttr, attrs.getI64IntegerAttr(int64_t(cost.weightBytes)));
  }
  main.front().getTerminator()->setOperands(delivered);
  for (Operation *op : llvm::reverse(old))
    op->erase();
  layerSplitter.eraseUnused();
  return success();
}

struct SplitStages : public mlir::tpc::impl::SplitStagesBase<SplitStages> {
  using SplitStagesBase::SplitStagesBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !MeshAttr::lookup(module)) {
      emitError(module.getLoc()) << "needs a function @main and a " << kMeshAttr
                                 << ": run the passes of sharding first";
      return signalPassFailure();
    }
    Accumulation accumulation(main);
    if (failed(accumulation.take()) || failed(Splitter(module, main).run(cuts)))
      return signalPassFailure();
    accumulation.restore();
  }
};

} // namespace
