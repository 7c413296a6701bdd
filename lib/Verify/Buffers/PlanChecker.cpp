//===- PlanChecker.cpp - Comparison of tensor and buffer functions --------===//

#include "PlanChecker.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

#include "PlannedOp.cpp.inc"

/// Describes an op and its ONNX node for messages.
static std::string describeOp(Operation *op) {
  std::string name = getSourceName(op->getLoc());
  return op->getName().getStringRef().str() + (name.empty() ? "" : " '" + name + "'");
}

std::string mlir::tpc::describe(Content content) {
  Operation *op = content.tensor.getDefiningOp();
  if (isa<buffer::BufferType>(content.tensor.getType()))
    return "a copy of given memory";
  if (!op)
    return "argument " + std::to_string(cast<BlockArgument>(content.tensor).getArgNumber());
  return "the result of " + describeOp(op) +
         (content.step ? " after step " + std::to_string(content.step) : "");
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult PlanChecker::compare(Operation *call, StringRef what, buffer::ExprAttr have,
                                   const SymExpr &wanted) {
  SymExpr expected = partSizes.normalize(wanted);
  if (have && value(have) == expected)
    return success();
  return call->emitOpError() << "has " << what << " " << (have ? have.getExpr().str() : "nothing")
                             << ", but must have " << expected.str();
}

LogicalResult PlanChecker::compare(Operation *call, StringRef what, ArrayAttr have,
                                   ArrayRef<SymExpr> wanted) {
  if (have && have.size() == wanted.size() &&
      llvm::all_of(llvm::zip(have.getAsRange<buffer::ExprAttr>(), wanted), [&](auto pair) {
        return value(std::get<0>(pair)) == partSizes.normalize(std::get<1>(pair));
      }))
    return success();
  InFlightDiagnostic error = call->emitOpError() << "must have " << what << " [";
  llvm::interleaveComma(wanted, error, [&](const SymExpr &e) { error << e.str(); });
  return error << "]";
}

LogicalResult PlanChecker::compare(Operation *call, StringRef what, Attribute have,
                                   Attribute wanted) {
  if (have == wanted)
    return success();
  InFlightDiagnostic error = call->emitOpError() << "has " << what << " ";
  (have ? error << have : error << "nothing") << ", but must have ";
  return wanted ? error << wanted : error << "nothing";
}

buffer::LoadAttr PlanChecker::getLoad(Value index) {
  if (auto op = index.getDefiningOp<buffer::ParameterOp>()) {
    auto entry = lookup<buffer::EntryOp>(op, op.getEntryAttr());
    return entry ? entry.getLoad() : buffer::LoadAttr();
  }
  auto argument = dyn_cast<BlockArgument>(index);
  return argument
             ? cast<buffer::ArgumentAttr>(function.getArgs()[argument.getArgNumber()]).getLoad()
             : buffer::LoadAttr();
}

LogicalResult PlanChecker::checkLoad(Operation *call, Value index, buffer::LoadAttr load) {
  if (getLoad(index) == load)
    return call ? checkNotUpdated(call, load) : success();
  return call ? call->emitOpError() << "uses another parameter than " << load : failure();
}

LogicalResult PlanChecker::checkParameter(Operation *call, Value index, Value tensor,
                                          buffer::ParameterUse use) {
  if (auto parameter = tensor.getDefiningOp<ParameterOp>())
    return checkLoad(call, index,
                     buffer::LoadAttr::get(module.getContext(), use,
                                           parameter.getWeightAttr().getAttr(),
                                           parameter.getViewAttr(), parameter.getType()));
  auto wanted = dyn_cast<BlockArgument>(tensor);
  auto argument = dyn_cast<BlockArgument>(index);
  if (wanted && argument && wanted.getOwner()->getParent() == source) {
    auto attr = cast<buffer::ArgumentAttr>(function.getArgs()[argument.getArgNumber()]);
    if (attr == buffer::ArgumentAttr::getParameter(module.getContext(), wanted.getArgNumber(), use))
      return success();
  }
  return call ? call->emitOpError() << "uses another parameter than " << describe(Content{tensor})
                                    << ", " << stringifyParameterUse(use)
              : failure();
}

//===----------------------------------------------------------------------===//
// Parallel walk
//===----------------------------------------------------------------------===//

/// Returns whether the op only defines a buffer or a parameter index and is not a call.
static bool isDefinition(Operation *op) {
  return isa<buffer::SlotOp, buffer::InputOp, buffer::ConstantOp, buffer::DenseOp, buffer::PartOp,
             buffer::ColumnsOp, buffer::ParameterOp, buffer::StateOp>(op);
}

Operation *PlanChecker::peek() {
  // Skips frame ops and copies, which may precede any call.
  auto it = at, last = end;
  bool isInner = fused != nullptr;
  for (;;) {
    if (it == last && isInner) {
      std::tie(it, last) = afterFused;
      isInner = false;
    } else if (it == last) {
      return nullptr;
    } else if (auto op = dyn_cast<buffer::FusedOp>(*it)) {
      Block &body = op.getBody().front();
      return &body.front();
    } else if (isDefinition(&*it) || isa<buffer::PushOp, buffer::PopOp, buffer::CopyOp>(*it)) {
      ++it;
    } else {
      return &*it;
    }
  }
}

/// Executes frame ops and copies, which have no corresponding tensor op.
LogicalResult PlanChecker::skipMemoryOps() {
  for (;;) {
    if (at == end && fused) {
      if (failed(leaveFused()))
        return failure();
    } else if (at == end) {
      return success();
    } else if (auto op = dyn_cast<buffer::FusedOp>(*at)) {
      afterFused = {std::next(at), end};
      fused = op;
      inFused.clear();
      at = op.getBody().front().begin();
      end = op.getBody().front().end();
    } else if (isa<buffer::PushOp, buffer::PopOp, buffer::CopyOp>(*at)) {
      if (failed(checkMemoryOp(&*at++)))
        return failure();
    } else if (isDefinition(&*at)) {
      ++at;
    } else {
      return success();
    }
  }
}

LogicalResult PlanChecker::leaveFused() {
  buffer::FusedOp op = std::exchange(fused, {});
  std::tie(at, end) = afterFused;
  return checkFused(op, inFused);
}

LogicalResult PlanChecker::checkMemoryOp(Operation *op) {
  if (auto push = dyn_cast<buffer::PushOp>(op)) {
    // Sizes of slots are not negative.
    for (Operation *user : push.getFrame().getUsers())
      if (auto slot = dyn_cast<buffer::SlotOp>(user))
        bounds.assume(partSizes.normalize(slot.getExtent().getBytes()));
    if (!bounds.isNeverNegative(value(push.getBytes())))
      return op->emitOpError() << "has " << push.getBytes().getExpr().str()
                               << " bytes, which may be "
                               << "negative";
    memory.enter(push.getFrame());
    SmallVector<SymExpr> borders{value(push.getBytes())};
    for (Operation *user : push.getFrame().getUsers())
      if (auto slot = dyn_cast<buffer::SlotOp>(user))
        borders.push_back(value(slot.getOffset()));
    memory.setBorders(push.getFrame(), borders);
    return success();
  }
  if (auto pop = dyn_cast<buffer::PopOp>(op)) {
    if (!memory.isTop(pop.getFrame()))
      return op->emitOpError("must pop the top frame of the stack");
    memory.leave();
    return success();
  }
  return checkCopy(cast<buffer::CopyOp>(op));
}

// After a copy, both ranges have the same content.
LogicalResult PlanChecker::checkCopy(buffer::CopyOp copy) {
  beginCall();
  auto from = resolve(copy, copy.getFrom()), to = resolve(copy, copy.getTo());
  if (failed(from) || failed(to) || failed(compare(copy, "bytes", copy.getBytes(), from->size)) ||
      failed(compare(copy, "bytes", copy.getBytes(), to->size)))
    return failure();
  if (auto dense = from->region.getDefiningOp<buffer::DenseOp>())
    if (buffer::LoadAttr load = getLoad(dense.getIndex());
        load && failed(checkNotUpdated(copy, load)))
      return failure();
  if (!isWritable(to->region) || isInPlace(to->region))
    return copy.emitOpError("writes to read-only memory");
  if (failed(checkBounds(copy, *to)))
    return failure();
  if (!memory.areDisjoint(*from, *to))
    return copy.emitOpError("copies between ranges that may overlap");
  memory.copy(*from, *to, !isWritable(from->region), copy);
  return success();
}

Operation *PlanChecker::next(Operation *op, StringRef name) {
  if (failed(skipMemoryOps()))
    return nullptr;
  if (at == end) {
    op->emitOpError() << "has no call on buffers: " << name << " is missing at the end";
    return nullptr;
  }
  Operation *call = &*at++;
  if (fused)
    inFused.push_back(op);
  if (call->getName().getStringRef() != name) {
    InFlightDiagnostic error = call->emitOpError() << "is not the expected call: " << describeOp(op)
                                                   << " needs " << name << " here";
    error.attachNote(op->getLoc()) << "this is the op on tensors";
    return nullptr;
  }
  beginCall();
  return call;
}

LogicalResult PlanChecker::checkBlock(Block &tensors, Block &buffers) {
  SmallVector<Operation *> ops;
  for (Operation &op : tensors)
    ops.push_back(&op);
  return checkOps(ops, buffers);
}

LogicalResult PlanChecker::checkOps(ArrayRef<Operation *> tensors, Block &buffers) {
  at = buffers.begin();
  end = buffers.end();
  size_t depth = memory.getDepth();
  for (Operation *op : tensors) {
    if (op->hasTrait<OpTrait::IsTerminator>() || done.contains(op))
      continue;
    auto planned = dyn_cast<PlannedOpInterface>(op);
    if (!planned)
      return op->emitOpError(
          "cannot be verified: the verifier has no rule for its calls on buffers");
    if (failed(planned.checkPlan(*this)))
      return failure();
  }
  if (!started.empty())
    return started.begin()->second.calls.front()->emitOpError("is never waited for");
  // Copies of results to the caller's memory may precede or follow the end of frames.
  if (failed(skipMemoryOps()))
    return failure();
  if (at != end)
    return at->emitOpError("corresponds to no op on tensors");
  if (memory.getDepth() != depth)
    return function.emitOpError("leaves a frame on the stack");
  return success();
}

/// Checks the sizes of an op that repeats a loop's body, or runs one event.
LogicalResult PlanChecker::checkMicroBatches(MicroBatchesOp loop,
                                             buffer::MicroBatchesOp iterations) {
  DimAttr batch = loop.getBatchAttr();
  bool isEvent = bool(iterations.getFirst());
  if (failed(compare(iterations, "count", iterations.getCount(),
                     SymExpr(batch && !isEvent ? partSizes.count(kMicroBatchAxis) : 1))))
    return failure();
  if (bool(batch) != bool(iterations.getSize()))
    return iterations.emitOpError(
        "must skip micro-batches without samples if and only if the loop on tensors does");
  if (!batch)
    return success();
  SymExpr size = partSizes.size(batch);
  if (!batch.usesAxis(kMicroBatchAxis))
    size = partSizes.size(size, StringAttr::get(loop.getContext(), kMicroBatchAxis));
  return compare(iterations, "size", *iterations.getSize(), size);
}

// Each iteration starts with the memory contents after the previous iteration. Values defined in
// the body are different in each iteration.
LogicalResult PlanChecker::checkLoop(MicroBatchesOp loop) {
  auto iterations = next<buffer::MicroBatchesOp>(loop);
  if (!iterations || failed(checkMicroBatches(loop, iterations)))
    return failure();
  if (iterations.getFirst())
    return iterations.emitOpError("runs one event, but the pipeline has no schedule");
  Block &tensors = loop.getBody().front(), &buffers = iterations.getBody().front();
  auto outer = std::pair(at, end);
  // A loop without a batch runs once.
  isInLoop = loop.getBatchAttr() && partSizes.count(kMicroBatchAxis) > 1;
  for (loopPass = 0; loopPass < (loop.getBatchAttr() ? loopPasses : 1); ++loopPass) {
    memory.forget([&](Value tensor) {
      return tensor.getParentBlock() == &tensors && !tensor.getDefiningOp<AccumulatedOp>();
    });
    for (Operation &op : tensors)
      done.erase(&op);
    if (failed(checkBlock(tensors, buffers)))
      return failure();
  }
  loopPass = 0;
  isInLoop = false;
  std::tie(at, end) = outer;
  return success();
}

// Memory outside of the event's frame keeps the values of other events, which have their own
// micro-batch. A cache has a slice for each micro-batch, which only one event of a chunk uses.
LogicalResult PlanChecker::checkEvent(MicroBatchesOp loop, const ::tpc::ScheduleEvent &step) {
  auto iterations = next<buffer::MicroBatchesOp>(loop);
  if (!iterations)
    return failure();
  if (iterations.getFirst() != std::optional<uint64_t>(step.microBatch))
    return iterations.emitOpError()
           << "must run the event " << step.str() << ", of micro-batch " << step.microBatch;
  partSizes.setMicroBatch(step.microBatch);
  event = &loop.getBody().front();
  eventMicroBatch = step.microBatch;
  isInLoop = partSizes.count(kMicroBatchAxis) > 1;
  auto outer = std::pair(at, end);
  LogicalResult result =
      failure(failed(checkMicroBatches(loop, iterations)) ||
              failed(checkOps(loop.getOps(step.phase), iterations.getBody().front())));
  std::tie(at, end) = outer;
  isInLoop = false;
  event = nullptr;
  partSizes.setMicroBatch(std::nullopt);
  memory.forgetRegions([](Value region) { return bool(region.getDefiningOp<buffer::StateOp>()); });
  return result;
}

LogicalResult PlanChecker::checkSignature(func::FuncOp tensors) {
  auto isExtentOf = [&](buffer::ExtentAttr extent, Type type) {
    return extent.getElement() == getElementTypeOrSelf(type) &&
           partSizes.normalize(extent.getElements().getExpr()) == partSizes.elements(type);
  };
  DenseSet<int64_t> inPlace;
  for (auto attr : function.getArgs().getAsRange<buffer::ArgumentAttr>()) {
    if (!attr.getArgument())
      continue;
    if (IntegerAttr result = attr.getResult()) {
      int64_t r = result.getInt();
      if (r < 0 || r >= tensors.getNumResults() || !inPlace.insert(r).second)
        return function.emitOpError()
               << "has an argument that becomes result " << r << " of @" << tensors.getName()
               << ", but this result must exist and have no other such argument";
      if (!isExtentOf(attr.getExtent(), tensors.getResultTypes()[r]))
        return function.emitOpError() << "has a buffer of another size for result " << r;
    }
    int64_t index = attr.getArgument().getInt();
    if (index < 0 || index >= tensors.getNumArguments())
      return function.emitOpError() << "has an argument for argument " << index << " of @"
                                    << tensors.getName() << ", which does not exist";
    if (attr.isBuffer() && !isExtentOf(attr.getExtent(), tensors.getArgumentTypes()[index]))
      return function.emitOpError() << "has a buffer of another size for argument " << index;
  }
  if (function.getResultExtents().size() + inPlace.size() != tensors.getNumResults())
    return function.emitOpError() << "has " << function.getResultExtents().size() << " buffers for "
                                  << tensors.getNumResults() - inPlace.size() << " results";
  auto next = function.getResultExtents().begin();
  for (auto [i, type] : llvm::enumerate(tensors.getResultTypes()))
    if (!inPlace.contains(i) && !isExtentOf(cast<buffer::ExtentAttr>(*next++), type))
      return function.emitOpError() << "has a buffer of another size for result " << i;
  return success();
}

LogicalResult PlanChecker::checkFunction(func::FuncOp tensors) {
  source = &tensors.getBody();
  if (failed(checkSignature(tensors)) ||
      failed(checkBlock(tensors.front(), function.getBody().front())))
    return failure();
  beginCall();
  DenseMap<int64_t, Value> inPlace;
  for (auto [attr, buffer] : llvm::zip(function.getArgs().getAsRange<buffer::ArgumentAttr>(),
                                       function.getBody().getArguments()))
    if (attr.getResult())
      inPlace[attr.getResult().getInt()] = buffer;
  auto next = function.getResultBuffers().begin();
  for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands())) {
    auto buffer = inPlace.find(i);
    if (failed(read(function, buffer == inPlace.end() ? Value(*next++) : buffer->second, value)))
      return failure();
  }
  return success();
}

LogicalResult PlanChecker::checkStage(StageOp stage) {
  Block &block = stage.getBody().front(), &buffers = function.getBody().front();
  ScheduleAttr schedule = stage->getParentOfType<PipelineOp>().getScheduleAttr();
  if (!schedule)
    return checkBlock(block, buffers);
  // The prologue, and then the events.
  at = buffers.begin();
  end = buffers.end();
  size_t depth = memory.getDepth();
  std::map<int64_t, MicroBatchesOp> loops;
  std::vector<int64_t> chunks = schedule.getChunks(stage.getIndex());
  for (Operation &op : block) {
    if (auto loop = dyn_cast<MicroBatchesOp>(op)) {
      loops[chunks[loops.size()]] = loop;
      continue;
    }
    auto planned = dyn_cast<PlannedOpInterface>(op);
    if (!planned || done.contains(&op)) {
      if (planned)
        continue;
      return op.emitOpError(
          "cannot be verified: the verifier has no rule for its calls on buffers");
    }
    if (failed(planned.checkPlan(*this)))
      return failure();
  }
  for (const ::tpc::ScheduleEvent &step : schedule.getEvents(stage.getIndex()))
    if (failed(checkEvent(loops.at(step.chunk), step)))
      return failure();
  if (failed(skipMemoryOps()))
    return failure();
  if (at != end)
    return at->emitOpError("corresponds to no event of the schedule");
  if (memory.getDepth() != depth)
    return function.emitOpError("leaves a frame on the stack");
  return success();
}
