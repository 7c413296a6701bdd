//===- ScheduleEvents.cpp - Events of a stage in their order --------------===//
//
// Projects the loops of a stage to the events of the pipeline's schedule. Each event becomes a loop
// that runs one iteration, with the ops of the event's phase. Checks that
//
//   * each chunk runs for each micro-batch exactly once,
//   * the events of one micro-batch are in the order RF (receive), F (forward), SF (send), each
//     once if it has ops,
//   * events are of existing micro-batches and of chunks of their rank; chunk i of rank r is chunk
//     r + i pp of the model.
//
// The matching of messages then proves that each event has the values that it needs from others.
//
//===----------------------------------------------------------------------===//

#include "tpc/Verify/Schedule.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::ScheduleEvent;
using ::tpc::SchedulePhase;

namespace {

/// A chunk with its loop; `next` is the next phase of each micro-batch.
struct Chunk {
  const Schedule::Item *loop;
  SmallVector<unsigned> next;
};

} // namespace

static SchedulePhase getPhase(const Schedule::Item &item) {
  if (isa<RecvOp>(item.op))
    return SchedulePhase::ReceiveForward;
  return isa<SendOp>(item.op) ? SchedulePhase::SendForward : SchedulePhase::Forward;
}

static Schedule::Items select(const Schedule::Items &items, SchedulePhase phase) {
  Schedule::Items selected;
  for (const Schedule::Item &item : items)
    if (getPhase(item) == phase)
      selected.push_back(item);
  return selected;
}

/// Returns the phases that an iteration of a loop has, in their order.
static SmallVector<SchedulePhase> getPhases(const Schedule::Item &loop) {
  SmallVector<SchedulePhase> phases;
  if (!select(loop.body, SchedulePhase::ReceiveForward).empty())
    phases.push_back(SchedulePhase::ReceiveForward);
  phases.push_back(SchedulePhase::Forward);
  if (!select(loop.body, SchedulePhase::SendForward).empty())
    phases.push_back(SchedulePhase::SendForward);
  return phases;
}

LogicalResult Schedule::projectEvents(StageOp stage, ScheduleAttr attr, Items &items) {
  int64_t rank = stage.getIndex();
  if (rank >= int64_t(attr.getRanks().size()))
    return stage.emitError() << "the schedule has no events for stage " << rank;
  Items projected;
  std::vector<const Item *> loops;
  for (const Item &item : items) {
    if (item.kind == Item::Kind::Loop)
      loops.push_back(&item);
    else if (loops.empty())
      projected.push_back(item);
    else
      return item.op->emitError("communicates after the loops that the schedule orders");
  }
  std::vector<int64_t> numbers = attr.getChunks(rank);
  for (auto [i, number] : llvm::enumerate(numbers))
    if (int64_t expected = rank + i * attr.getRanks().size(); number != expected)
      return stage.emitError() << "the schedule has events of chunk " << number << " for stage "
                               << rank << ", whose chunk " << i << " is chunk " << expected
                               << " of the model";
  if (loops.size() != numbers.size())
    return stage.emitError() << "the schedule has events of " << numbers.size()
                             << " chunks for stage " << rank << ", which has " << loops.size()
                             << " tpc.micro_batches";
  std::map<int64_t, Chunk> chunks;
  for (auto [number, loop] : llvm::zip_equal(numbers, loops)) {
    int64_t iterations = cast<MicroBatchesOp>(loop->op).getBatchAttr() ? grid.getMicroBatches() : 1;
    chunks[number] = {loop, SmallVector<unsigned>(iterations, 0)};
  }
  for (const ScheduleEvent &event : attr.getEvents(rank)) {
    Chunk &chunk = chunks[event.chunk];
    SmallVector<SchedulePhase> phases = getPhases(*chunk.loop);
    auto fail = [&] {
      return chunk.loop->op->emitError()
             << "stage " << rank << ": the schedule's event " << event.str() << " ";
    };
    if (event.microBatch >= int64_t(chunk.next.size()))
      return fail() << "is of a micro-batch that does not exist: there are " << chunk.next.size();
    unsigned &next = chunk.next[event.microBatch];
    auto *found = llvm::find(phases, event.phase);
    if (found == phases.end())
      return fail() << "has no ops: the chunk has none of this phase";
    if (found < phases.begin() + next)
      return fail() << "occurs twice, or after a later phase of the same micro-batch";
    if (found > phases.begin() + next)
      return fail() << "comes before "
                    << ScheduleEvent{phases[next], event.chunk, event.microBatch}.str()
                    << ", which must be earlier";
    ++next;
    projected.push_back({Item::Kind::Loop,
                         chunk.loop->op,
                         {},
                         select(chunk.loop->body, event.phase),
                         {},
                         event.microBatch});
  }
  for (const auto &[number, chunk] : chunks) {
    SmallVector<SchedulePhase> phases = getPhases(*chunk.loop);
    for (auto [i, next] : llvm::enumerate(chunk.next))
      if (next < phases.size())
        return chunk.loop->op->emitError() << "stage " << rank << ": the schedule has no event "
                                           << ScheduleEvent{phases[next], number, int64_t(i)}.str();
  }
  items = std::move(projected);
  return success();
}
