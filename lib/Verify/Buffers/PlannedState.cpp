//===- PlannedState.cpp - Caches and parameters as persistent memory ------===//
//
// A parameter of a training step is updated exactly once, after the last other op has read it.
//
// The memory of a cache contains this rank's slice of the argument until tokens are appended, and
// the slice of the result at the end of a step. Only appends may write to it.
//
//===----------------------------------------------------------------------===//

#include "PlanChecker.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"
#include "tpc/Kernel/Kernel.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Removes the split over mb, because a rank's memory has the sequences of all micro-batches.
static DistAttr withoutMicroBatch(DistAttr dist) {
  SmallVector<DimAttr> dims;
  for (DimAttr dim : dist.getDims()) {
    SmallVector<FactorAttr> factors;
    auto drop = [](ArrayRef<StringAttr> axes) {
      SmallVector<StringAttr> left(axes);
      llvm::erase_if(left, [](StringAttr axis) { return axis.getValue() == kMicroBatchAxis; });
      return left;
    };
    for (FactorAttr factor : dim.getFactors())
      factors.push_back(
          FactorAttr::get(dist.getContext(), factor.getExpr(), drop(factor.getAxes())));
    dims.push_back(DimAttr::get(dist.getContext(), factors, drop(dim.getAxes())));
  }
  return dist.withDims(dims);
}

/// Returns the number of copies of each head if a gather selects all heads in order, equally often,
/// or this rank's slice of them (by the result's type). Returns 0 for other gathers.
static int64_t countGathered(GatherOp gather) {
  Value indices = gather.getIndices();
  while (auto part = indices.getDefiningOp<LocalSliceOp>())
    indices = part.getOperand();
  auto constant = indices.getDefiningOp<ConstantOp>();
  auto list = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  // The operand must have all heads, because a rank would read zeros for heads of other shards.
  if (!list || gather.getDim() != 1 || !getDist(gather.getData()).getDims()[1].getAllAxes().empty())
    return 0;
  std::optional<int64_t> heads = getSizes(gather.getData())[1].asConstant();
  if (!heads || *heads < 1 || list.getNumElements() % *heads)
    return 0;
  int64_t times = list.getNumElements() / *heads;
  for (auto [i, head] : llvm::enumerate(list.getValues<APInt>()))
    if (head.getSExtValue() != int64_t(i) / times)
      return 0;
  return times;
}

/// Returns the number of copies of each head if a value is derived from a cache only by slices and
/// repetitions of heads; else 0.
static int64_t countCopies(Value tensor, BlockArgument &argument) {
  int64_t copies = 1;
  auto sizes = [](Value v) { return getSizes(v); };
  while (Operation *op = tensor.getDefiningOp()) {
    if (isa<LocalSliceOp>(op)) {
      tensor = op->getOperand(0);
      continue;
    }
    if (auto gather = dyn_cast<GatherOp>(op)) {
      int64_t times = copies == 1 ? countGathered(gather) : 0;
      if (!times)
        return 0;
      copies = times;
      tensor = gather.getData();
      continue;
    }
    // [b, h * t, c, d] from [b, h, t, c, d] from [b, h, 1, c, d] from [b, h, c, d].
    auto merged = dyn_cast<ReshapeOp>(op);
    auto repeated = merged ? merged.getOperand().getDefiningOp<ExpandOp>() : ExpandOp();
    auto apart = repeated ? repeated.getOperand().getDefiningOp<ReshapeOp>() : ReshapeOp();
    if (!apart || copies != 1)
      return 0;
    auto all = sizes(tensor), many = sizes(repeated), one = sizes(apart),
         source = sizes(apart.getOperand());
    std::optional<int64_t> times = many.size() == 5 ? many[2].asConstant() : std::nullopt;
    if (!times || *times < 1 || one.size() != 5 || source.size() != 4 || all.size() != 4 ||
        !one[2].isConstant(1) || all[1] != source[1] * SymExpr(*times))
      return 0;
    for (auto [a, b] : {std::pair(0, 0), {1, 1}, {3, 2}, {4, 3}})
      if (many[a] != source[b] || one[a] != source[b] || (b != 1 && all[b] != source[b]))
        return 0;
    copies = *times;
    tensor = apart.getOperand();
  }
  argument = cast<BlockArgument>(tensor);
  return copies;
}

/// Returns the byte offset of this micro-batch's slice of the memory.
SymExpr PlanChecker::getMicroBatchOffset(Value tensor) {
  ArrayRef<DimAttr> dims = getDist(tensor).getDims();
  if (dims.empty() || dims[0].getFactors().size() != 1)
    return SymExpr(0);
  ArrayRef<StringAttr> axes = dims[0].getFactors()[0].getAxes();
  if (axes.empty() || axes.back().getValue() != kMicroBatchAxis)
    return SymExpr(0);
  SymExpr first = partSizes.begin(dims[0].getFactors()[0].getExpr(), axes, axes.size() - 1);
  return SymExpr(getElementBytes(tensor.getType())) * first * partSizes.size(dims.drop_front());
}

/// Checks a read of a cache before any write in a step: `tensor` must be a rank's slice of the
/// cache's argument.
LogicalResult PlanChecker::checkState(Operation *call, buffer::StateOp state,
                                      const MemoryRange &where, Value tensor) {
  FlatSymbolRefAttr cache = state.getCacheAttr();
  WalkResult alone = function.walk([&](buffer::StateOp other) {
    return other != state && other.getCacheAttr() == cache ? WalkResult::interrupt()
                                                           : WalkResult::advance();
  });
  if (alone.wasInterrupted())
    return state.emitOpError() << "is one of several names for cache " << cache;
  BlockArgument argument;
  int64_t copies = countCopies(tensor, argument);
  auto pipeline = copies ? dyn_cast<PipelineOp>(argument.getOwner()->getParentOp()) : PipelineOp();
  if (!pipeline ||
      getCache(cast<DictionaryAttr>(pipeline.getInputAttrs()[argument.getArgNumber()])) != cache)
    return call->emitOpError() << "reads cache " << cache << " for " << describe(Content{tensor})
                               << ", which is not a slice of this cache";
  DistAttr dist = getDist(tensor), whole = withoutMicroBatch(dist);
  bool hasMicroBatch = whole.getDims() != dist.getDims();
  if (isInLoop && !hasMicroBatch)
    return call->emitOpError() << "uses all of cache " << cache
                               << " in each of several micro-batches";
  auto &layout = layouts.try_emplace(state, whole).first->second;
  if (layout.getDims() != whole.getDims() ||
      copiesOf.try_emplace(state, copies).first->second != copies)
    return call->emitOpError() << "uses cache " << cache << " under another distribution than "
                               << "before";
  if (partSizes.normalize(state.getExtent().getElements().getExpr()) !=
      partSizes.size(whole.getDims()))
    return state.emitOpError() << "has another size than this rank's slice of the cache";
  if (where.begin != getMicroBatchOffset(tensor))
    return call->emitOpError() << "uses cache " << cache << " at offset " << where.begin.str()
                               << ", but this micro-batch's slice begins at "
                               << getMicroBatchOffset(tensor).str();
  return success();
}

//===----------------------------------------------------------------------===//
// Updates of parameters
//===----------------------------------------------------------------------===//

/// Whether two parameters may have common elements. Different views of a weight have none.
static bool mayOverlap(buffer::LoadAttr a, buffer::LoadAttr b) {
  return a.getWeight() == b.getWeight() &&
         (!a.getView() || !b.getView() || a.getView() == b.getView());
}

LogicalResult PlanChecker::checkNotUpdated(Operation *call, buffer::LoadAttr load) {
  for (auto &[other, writer] : updated)
    if (mayOverlap(load, other)) {
      InFlightDiagnostic error = call->emitOpError() << "reads @" << load.getWeight().getValue()
                                                     << ", whose elements were updated before";
      error.attachNote(writer->getLoc()) << "updated here";
      return error;
    }
  return success();
}

/// Functions read the parameters of their entries without receiving them as arguments.
LogicalResult PlanChecker::checkCalleesOf(buffer::CallOp call) {
  if (updated.empty())
    return success();
  SmallVector<buffer::FuncOp> work{lookup<buffer::FuncOp>(call, call.getCalleeAttr())};
  DenseSet<Operation *> seen;
  while (!work.empty()) {
    buffer::FuncOp callee = work.pop_back_val();
    if (!seen.insert(callee).second)
      continue;
    WalkResult walked = callee.walk([&](Operation *op) {
      if (auto inner = dyn_cast<buffer::CallOp>(op))
        work.push_back(lookup<buffer::FuncOp>(inner, inner.getCalleeAttr()));
      auto parameter = dyn_cast<buffer::ParameterOp>(op);
      auto entry =
          parameter ? lookup<buffer::EntryOp>(op, parameter.getEntryAttr()) : buffer::EntryOp();
      return WalkResult(entry ? checkNotUpdated(call, entry.getLoad()) : success());
    });
    if (walked.wasInterrupted())
      return failure();
  }
  return success();
}

/// All parameters of the weight have the memory that is updated, so that none keeps old elements.
LogicalResult PlanChecker::checkCopies(Operation *call, buffer::LoadAttr load) {
  for (auto entry : module.getOps<buffer::EntryOp>())
    if (entry.getLoad() != load && mayOverlap(entry.getLoad(), load))
      return call->emitOpError() << "updates " << load << ", but " << entry.getLoad()
                                 << " is another copy of its elements";
  return success();
}

LogicalResult PlanChecker::checkUpdateInPlace(buffer::LaunchOp call, unsigned number,
                                              OpResult result) {
  Value buffer = call.getWrites()[number];
  buffer::LoadAttr load = getLoad(buffer.getDefiningOp<buffer::DenseOp>().getIndex());
  if (!load)
    return call.emitOpError("writes to a parameter without an entry");
  StringRef weight = load.getWeight().getValue();
  for (auto &[other, writer] : updated)
    if (mayOverlap(load, other))
      return call.emitOpError() << "is a second update of @" << weight;
  auto output = result.hasOneUse() ? dyn_cast<OutputOp>(*result.user_begin()) : OutputOp();
  auto pipeline = output ? output->getParentOfType<PipelineOp>() : PipelineOp();
  std::optional<Update> update =
      pipeline ? Update::get(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]))
               : std::nullopt;
  if (!update ||
      load != buffer::LoadAttr::get(module.getContext(), buffer::ParameterUse::Dense,
                                    update->weight.getAttr(), update->view, result.getType()))
    return call.emitOpError() << "writes " << describe(Content{result}) << " to @" << weight
                              << ", which it does not update";
  if (isInLoop || event)
    return call.emitOpError() << "updates @" << weight << " in each of several micro-batches";
  ModuleOp kernels = kernel::getKernels(module);
  auto kernel = kernels ? kernels.lookupSymbol<kernel::FuncOp>(call.getKernel()) : kernel::FuncOp();
  std::optional<unsigned> over =
      kernel && number < kernel.getNumResults() ? kernel.getOverwritten(number) : std::nullopt;
  for (auto [i, read] : llvm::enumerate(call.getReads())) {
    auto dense = read.getDefiningOp<buffer::DenseOp>();
    buffer::LoadAttr other = dense ? getLoad(dense.getIndex()) : buffer::LoadAttr();
    if (over != i && other && mayOverlap(load, other))
      return call.emitOpError() << "overwrites @" << weight << ", which @" << call.getKernel()
                                << " may still read as operand " << i;
  }
  if (auto extent = buffer::getExtent(buffer);
      extent.getElement() != getElementTypeOrSelf(result.getType()) ||
      partSizes.normalize(extent.getElements().getExpr()) != partSizes.elements(result.getType()))
    return call.emitOpError() << "writes " << describe(Content{result})
                              << " to a buffer of another size";
  if (failed(checkCopies(call, load)))
    return failure();
  updated[load] = call;
  inPlace.insert(result);
  return success();
}

LogicalResult PlanChecker::checkUpdate(OutputOp op, const Update &update) {
  if (inPlace.contains(op.getValue()))
    return success();
  auto call = next<buffer::UpdateOp>(op);
  if (!call)
    return failure();
  Type type = op.getValue().getType();
  buffer::LoadAttr load = buffer::LoadAttr::get(module.getContext(), buffer::ParameterUse::Dense,
                                                update.weight.getAttr(), update.view, type);
  if (getLoad(call.getIndex()) != load)
    return call.emitOpError() << "uses another parameter than " << load;
  if (failed(read(call, call.getFrom(), op.getValue())) ||
      failed(compare(call, "bytes", call.getBytes(),
                     SymExpr(getElementBytes(type)) * partSizes.elements(type))))
    return failure();
  if (isInLoop)
    return call.emitOpError("is in a loop over micro-batches, of which each would update it");
  SmallVector<Operation *> ends{call}; // the call, and the loop that contains it
  if (auto iterations = dyn_cast<buffer::MicroBatchesOp>(call->getParentOp()))
    ends.push_back(iterations);
  for (Operation *end : ends)
    for (Operation *later = end->getNextNode(); later; later = later->getNextNode())
      if (!isa<buffer::UpdateOp, buffer::OutputOp, buffer::PopOp, buffer::ParameterOp,
               buffer::SlotOp>(later))
        return later->emitOpError() << "may read parameters, but @" << load.getWeight().getValue()
                                    << " is updated before";
  for (auto &[other, writer] : updated)
    if (mayOverlap(load, other))
      return call.emitOpError() << "is a second update of @" << load.getWeight().getValue();
  updated[load] = call;
  return checkCopies(call, load);
}

LogicalResult PlanChecker::checkCacheResult(OutputOp op, FlatSymbolRefAttr cache) {
  buffer::StateOp state;
  function.walk([&](buffer::StateOp other) {
    if (other.getCacheAttr() == cache)
      state = other;
  });
  auto layout = state ? layouts.find(state) : layouts.end();
  if (layout == layouts.end())
    return op.emitOpError() << "is the result of cache " << cache
                            << ", which is not used on buffers";
  Copies copies = getCopies(op->getParentOfType<PipelineOp>(), op.getIndex());
  if (withoutMicroBatch(getDist(op.getValue())).getDims() != layout->second.getDims() ||
      copies.times != copiesOf.lookup(state) || (copies.times > 1 && copies.dim != 1))
    return op.emitOpError() << "is in cache " << cache
                            << " under another distribution than the cache's input";
  SymExpr offset(0);
  MemoryRange where{state, getMicroBatchOffset(op.getValue()),
                    SymExpr(getElementBytes(op.getValue().getType())) *
                        partSizes.elements(op.getValue().getType())};
  Value root = getRoot(op.getValue(), offset);
  if (offset.isConstant(0) &&
      memory.find(where, offset, [&](Content stored) { return stored == ofEvent({root}); }))
    return success();
  InFlightDiagnostic error = op.emitOpError()
                             << "is not in cache " << cache << " at the end of a step";
  if (const Memory::Entry *other = memory.findAny(where))
    error.attachNote(other->writer->getLoc()) << "the memory has " << describe(other->content);
  return error;
}
