//===- LayerSplitter.cpp - Splitting of layers between stages -------------===//

#include "LayerSplitter.h"
#include "PipelineChain.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/Tpc.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

ArrayRef<Operation *> LayerSplitter::getCutPoints(func::CallOp call) {
  auto layer = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!layer || layer.isExternal() || !layer->hasAttr(kLayerAttr) ||
      !llvm::hasSingleElement(layer.getBody()))
    return {};
  auto [it, isNew] = cutPoints.try_emplace(layer);
  SmallVector<Operation *> &list = it->second;
  if (!isNew)
    return list;

  // Ops that depend only on weights and constants are recomputed in each segment, as in stages.
  DenseSet<Operation *> &recomputedHere = recomputed[layer];
  auto isWeight = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner()->getParentOp() == layer &&
           call.getOperand(argument.getArgNumber()).getDefiningOp<ParameterOp>();
  };
  Block &body = layer.front();
  DenseMap<Value, Operation *> lastUse;
  DenseSet<Value> used; // arguments used so far
  for (Operation &op : body.without_terminator()) {
    if (isa<ShardingRuleOpInterface, LocalSliceOp>(op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          return isWeight(operand) || recomputedHere.contains(operand.getDefiningOp());
        }))
      recomputedHere.insert(&op);
    for (Value operand : op.getOperands())
      lastUse[operand] = &op;
  }
  auto isUsedAfter = [&](Value value, Operation &op) {
    Operation *last = lastUse.lookup(value);
    return last && op.isBeforeInBlock(last);
  };
  llvm::SetVector<Value> live;
  for (Operation &op : body.without_terminator()) {
    if (recomputedHere.contains(&op))
      continue;
    for (Value operand : op.getOperands())
      if (isa<BlockArgument>(operand) && !isWeight(operand))
        live.insert(operand);
    for (Value result : op.getResults())
      live.insert(result);
    live.remove_if([&](Value value) { return !isUsedAfter(value, op); });
    Operation *next = op.getNextNode();
    while (recomputedHere.contains(next))
      next = next->getNextNode();
    // Same conditions as between the ops of @main (PipelineChain::findCutPoints).
    if (live.size() == 1 && live[0].getDefiningOp() && !next->hasTrait<OpTrait::IsTerminator>() &&
        !getDist(live[0]).getPartial() && !isa<AllGatherOp>(live[0].getDefiningOp())) {
      list.push_back(next);
      sent[layer][next] = live[0];
    }
  }
  return list;
}

static void addNames(Location loc, llvm::StringSet<> &names) {
  SmallVector<std::string> list;
  collectNodeNames(loc, list);
  for (const std::string &name : list)
    names.insert(name);
}

/// Returns the fused locations with these indices; all locations if none match.
static Location selectLocs(Location loc, ArrayRef<unsigned> indices) {
  auto fused = dyn_cast<FusedLoc>(loc);
  SmallVector<Location> list;
  for (unsigned i : indices)
    if (fused && i < fused.getLocations().size())
      list.push_back(fused.getLocations()[i]);
  return list.empty() ? loc : FusedLoc::get(loc.getContext(), list);
}

ArrayRef<LayerSplitter::LayerSegment> LayerSplitter::makeSegments(func::FuncOp layer,
                                                                  ArrayRef<Operation *> cuts) {
  SmallVector<LayerSegment> &list = segments[SmallVector<Operation *>(cuts)];
  if (!list.empty())
    return list;
  layers.insert(layer);
  Block &body = layer.front();
  Operation *terminator = body.getTerminator();
  const DenseSet<Operation *> &recomputedHere = recomputed[layer];
  for (size_t k = 0; k <= cuts.size(); ++k) {
    Operation *begin = k == 0 ? &body.front() : cuts[k - 1];
    Operation *end = k == cuts.size() ? terminator : cuts[k];
    LayerSegment segment;
    segment.received = k == 0 ? Value() : sent[layer][begin];

    llvm::SetVector<Operation *> ops;
    std::function<void(Operation *)> collect = [&](Operation *op) {
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && recomputedHere.contains(producer))
          collect(producer);
      ops.insert(op);
    };
    for (Operation *op = begin; op != end; op = op->getNextNode())
      if (!recomputedHere.contains(op))
        collect(op);
    SmallVector<Value> returned;
    if (k < cuts.size())
      returned.push_back(sent[layer][end]);
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      Operation *producer = value.getDefiningOp();
      bool elsewhere = !producer || recomputedHere.contains(producer);
      // Results that are not computed by a segment are returned by the last segment.
      if (elsewhere ? k < cuts.size() : !ops.contains(producer))
        continue;
      if (producer)
        collect(producer);
      segment.results.push_back(i);
      returned.push_back(value);
    }
    llvm::SetVector<Value> arguments;
    for (BlockArgument argument : body.getArguments())
      if (llvm::is_contained(returned, argument) || llvm::any_of(ops, [&](Operation *op) {
            return llvm::is_contained(op->getOperands(), argument);
          })) {
        segment.arguments.push_back(argument.getArgNumber());
        arguments.insert(argument);
      }

    SmallVector<Value> taken;
    if (segment.received)
      taken.push_back(segment.received);
    llvm::append_range(taken, arguments);
    // Identifies ops by their original locations.
    llvm::StringSet<> names;
    for (Operation *op : ops)
      if (!recomputedHere.contains(op) && isa<ShardingRuleOpInterface>(op))
        addNames(op->getLoc(), names);
    if (auto fused = dyn_cast<FusedLoc>(layer.getLoc()))
      for (auto [i, loc] : llvm::enumerate(fused.getLocations())) {
        SmallVector<std::string> locNames;
        collectNodeNames(loc, locNames);
        bool isTaken = llvm::any_of(list, [&, i = i](const LayerSegment &other) {
          return llvm::is_contained(other.locs, i);
        });
        if (!isTaken && llvm::any_of(locNames, [&](auto &name) { return names.contains(name); }))
          segment.locs.push_back(i);
      }

    OpBuilder builder(layer->getContext());
    segment.function = cloneAsFunction(builder, selectLocs(layer.getLoc(), segment.locs),
                                       (layer.getName() + "_part_" + Twine(k)).str(),
                                       ops.getArrayRef(), taken, returned);
    segment.function->setAttr(kLayerPartAttr, builder.getUnitAttr());
    symbols.insert(segment.function,
                   std::next((list.empty() ? layer : list.back().function)->getIterator()));
    list.push_back(std::move(segment));
  }
  return list;
}

SmallVector<func::CallOp> LayerSplitter::split(func::CallOp call, ArrayRef<Operation *> cuts) {
  auto layer = module.lookupSymbol<func::FuncOp>(call.getCallee());
  SmallVector<func::CallOp> calls;
  OpBuilder builder(call);
  Value received;
  for (const LayerSegment &segment : makeSegments(layer, cuts)) {
    SmallVector<Value> operands;
    if (segment.received)
      operands.push_back(received);
    for (unsigned i : segment.arguments)
      operands.push_back(call.getOperand(i));
    auto made = func::CallOp::create(builder, selectLocs(call.getLoc(), segment.locs),
                                     segment.function, operands);
    unsigned first = made.getNumResults() - segment.results.size();
    if (first > 0)
      received = made.getResult(0);
    for (auto [k, i] : llvm::enumerate(segment.results))
      call.getResult(i).replaceAllUsesWith(made.getResult(first + k));
    calls.push_back(made);
  }
  call.erase();
  return calls;
}

void LayerSplitter::eraseUnused() {
  llvm::StringSet<> called;
  module.walk([&](func::CallOp call) { called.insert(call.getCallee()); });
  for (auto &[cutPoints, list] : segments)
    for (LayerSegment &segment : list)
      if (!called.contains(segment.function.getName()))
        symbols.erase(segment.function);
  for (Operation *layer : layers)
    if (!called.contains(cast<func::FuncOp>(layer).getName()))
      symbols.erase(layer);
  segments.clear();
  layers.clear();
}
