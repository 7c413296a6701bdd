//===- BufferEvents.cpp - Buffers of stages with a schedule ---------------===//
//
// Each event of a stage becomes a `tpc_buffer.micro_batches 1 from m` with the ops of its phase.
// Values that pass from one event to another (received, computed, sent) are in a frame that all
// events share. Its slots are assigned in the order of the events, so the frame has as many slots
// as messages are in flight.
//
//===----------------------------------------------------------------------===//

#include "BufferPlanner.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::ScheduleEvent;
using ::tpc::SymExpr;

buffer::ExprAttr mlir::tpc::getMicroBatchSize(MicroBatchesOp loop, BufferPlanner &planner) {
  DimAttr batch = loop.getBatchAttr();
  if (!batch)
    return {};
  SymExpr local = getLocalSize(batch, planner.grid());
  if (!batch.usesAxis(kMicroBatchAxis))
    local = getShardSize(local, kMicroBatchAxis, planner.grid());
  return planner.expr(local);
}

namespace {

/// A value of one micro-batch that passes between events: its first and last event.
struct Passed {
  Value value;
  int64_t microBatch;
  int64_t first, last;
};

} // namespace

/// Whether an op of another phase uses the value.
static bool isPassed(Value value) {
  Operation *producer = value.getDefiningOp();
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return MicroBatchesOp::getPhase(user) != MicroBatchesOp::getPhase(producer);
  });
}

/// Returns the passed values that the ops of an event define or use.
static SmallVector<Value> getPassed(MicroBatchesOp loop, ::tpc::SchedulePhase phase) {
  llvm::SetVector<Value> values;
  auto add = [&](Value value) {
    if (value.getParentBlock() == &loop.getBody().front() && isPassed(value))
      values.insert(value);
  };
  for (Operation *op : loop.getOps(phase)) {
    for (Value operand : op->getOperands())
      add(operand);
    for (Value result : op->getResults())
      add(result);
  }
  return values.takeVector();
}

LogicalResult BufferPlanner::planEvents(StageOp stage, ScheduleAttr schedule) {
  Block &block = stage.getBody().front();
  std::vector<int64_t> chunks = schedule.getChunks(stage.getIndex());
  std::vector<ScheduleEvent> events = schedule.getEvents(stage.getIndex());
  std::map<int64_t, MicroBatchesOp> loops;
  SmallVector<Operation *> prologue;
  for (Operation &op : block) {
    if (auto loop = dyn_cast<MicroBatchesOp>(op))
      loops[chunks[loops.size()]] = loop;
    else
      prologue.push_back(&op);
  }

  // Live ranges of passed values, in numbers of events.
  std::vector<Passed> liveRanges;
  std::map<std::pair<void *, int64_t>, size_t> index; // by value and micro-batch
  for (auto [i, event] : llvm::enumerate(events))
    for (Value value : getPassed(loops.at(event.chunk), event.phase)) {
      auto [it, isNew] =
          index.try_emplace({value.getAsOpaquePointer(), event.microBatch}, liveRanges.size());
      if (isNew)
        liveRanges.push_back({value, event.microBatch, int64_t(i), int64_t(i)});
      liveRanges[it->second].last = int64_t(i);
    }
  std::vector<Slot> slots;
  std::vector<size_t> slotOf;
  for (const Passed &range : liveRanges) { // in the order of their first events
    // The first micro-batch is the largest. Its size is added because the size of a later one may
    // be negative in a run with fewer micro-batches, which skips the event.
    SymExpr size = bytes(range.value.getType());
    auto getSize = [&](int64_t microBatch) {
      return size.substitute({{"rank.mb", SymExpr(microBatch)}});
    };
    SmallVector<SymExpr, 2> sizes = {getSize(0)};
    if (SymExpr eventSize = getSize(range.microBatch); eventSize != sizes.front())
      sizes.push_back(eventSize);
    auto isFree = [&](const Slot &slot) { return slot.freeAt < range.first; };
    auto found = llvm::find_if(slots, [&](const Slot &slot) {
      return isFree(slot) && llvm::is_contained(slot.sizes, sizes.back());
    });
    if (found == slots.end())
      found = llvm::find_if(slots, isFree);
    if (found == slots.end())
      found = slots.insert(slots.end(), Slot());
    for (const SymExpr &each : sizes)
      if (!llvm::is_contained(found->sizes, each))
        found->sizes.push_back(each);
    found->freeAt = range.last;
    slotOf.push_back(found - slots.begin());
  }
  SymExpr total = assignOffsets(slots);

  findSlots(block, listOps(block), {});
  SymExpr frameSize = assignOffsets(this->slots);
  if (!this->slots.empty())
    frame = buffer::PushOp::create(b, loc, expr(frameSize));
  if (failed(planOps(prologue)))
    return failure();
  loc = stage.getLoc();
  Value messages = slots.empty() ? Value() : buffer::PushOp::create(b, loc, expr(total));
  for (const ScheduleEvent &event : events) {
    auto getOffset = [&](Value value) {
      auto it = index.find({value.getAsOpaquePointer(), event.microBatch});
      return it == index.end() ? std::nullopt : std::optional(slots[slotOf[it->second]].begin);
    };
    if (failed(planEvent(loops.at(event.chunk), event, getOffset, messages)))
      return failure();
  }
  loc = stage.getLoc();
  if (messages)
    buffer::PopOp::create(b, loc, messages);
  if (frame)
    buffer::PopOp::create(b, loc, frame);
  return success();
}

LogicalResult BufferPlanner::planEvent(MicroBatchesOp loop, const ScheduleEvent &event,
                                       function_ref<std::optional<SymExpr>(Value)> getOffset,
                                       Value messages) {
  loc = loop.getLoc();
  auto iterations = buffer::MicroBatchesOp::create(
      b, loc, expr(1), b.getI64IntegerAttr(event.microBatch), getMicroBatchSize(loop, *this));
  Block &body = iterations.getBody().emplaceBlock();
  DenseMap<Value, Value> before = buffers;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&body);
    for (Value value : getPassed(loop, event.phase))
      if (std::optional<SymExpr> offset = getOffset(value))
        buffers[getAliasRoot(value)] =
            buffer::SlotOp::create(b, loc, messages, expr(*offset), shared.extent(value.getType()));
  }
  if (failed(planInner(loop.getBody().front(), loop.getOps(event.phase), body)))
    return failure();
  // Buffers that were created in the event are dropped, except those at the function's beginning.
  for (auto &[value, buffer] : buffers)
    if (buffer.getParentBlock() == &target.getBody().front())
      before.try_emplace(value, buffer);
  buffers = std::move(before);
  return success();
}
