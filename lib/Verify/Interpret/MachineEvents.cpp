//===- MachineEvents.cpp - Interpreter of pipelines with a schedule -------===//

#include "Machine.h"

#include "World.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

/// Runs the next events of a stage until one waits for a message. Returns whether any event ran.
template <typename A> FailureOr<bool> Machine<A>::runEvents(EventState &state) {
  bool progress = false;
  for (; state.next < state.events.size(); ++state.next, progress = true) {
    const ::tpc::ScheduleEvent &event = state.events[state.next];
    // The randomized check may run on a smaller grid: events of missing micro-batches are skipped.
    if (event.microBatch >= world.getGrid().getMicroBatches())
      continue;
    MicroBatchesOp loop = state.loops.at(event.chunk);
    SmallVector<int> active = enterMicroBatch(loop, event.microBatch, state.ranks);
    SmallVector<Operation *> ops = loop.getOps(event.phase);
    std::map<int64_t, size_t> received; // by sending stage
    for (Operation *op : ops)
      if (auto recv = dyn_cast<RecvOp>(op))
        ++received[recv.getFrom()];
    for (auto [from, count] : received)
      for (int rank : active)
        if (messages[{rank, from}].size() < count)
          return progress;
    Values &values =
        state.values.try_emplace({event.chunk, event.microBatch}, state.outside).first->second;
    for (Operation *op : ops)
      if (failed(runOp(op, values, active)))
        return failure();
  }
  return progress;
}

/// Runs the events of all stages; each stage runs its own in the order of the schedule.
template <typename A>
LogicalResult Machine<A>::runSchedule(PipelineOp pipeline, ScheduleAttr schedule,
                                      const Values &values) {
  std::vector<EventState> states;
  for (auto stage : pipeline.getBody().getOps<StageOp>()) {
    int64_t index = stage.getIndex();
    if (index >= int64_t(schedule.getRanks().size()))
      return fail(stage) << "the schedule has no events for it";
    EventState state{getRanks(stage), schedule.getEvents(index), 0, {}, values, {}};
    std::vector<int64_t> chunks = schedule.getChunks(index);
    inMicroBatch = false;
    for (Operation &op : stage.getBody().front()) {
      auto loop = dyn_cast<MicroBatchesOp>(op);
      if (!loop && failed(runOp(&op, state.outside, state.ranks)))
        return failure();
      if (loop && state.loops.size() < chunks.size())
        state.loops[chunks[state.loops.size()]] = loop;
    }
    if (state.loops.size() != chunks.size())
      return fail(stage) << "the schedule has events of " << chunks.size() << " chunks";
    states.push_back(std::move(state));
  }
  inMicroBatch = true;
  for (bool progress = true; progress;) {
    progress = false;
    for (EventState &state : states) {
      FailureOr<bool> moved = runEvents(state);
      if (failed(moved))
        return failure();
      progress |= *moved;
    }
  }
  for (EventState &state : states)
    if (state.next < state.events.size())
      return fail(state.loops.at(state.events[state.next].chunk))
             << "the event " << state.events[state.next].str()
             << " waits for a message that no rank sent";
  return success();
}

template FailureOr<bool> Machine<Doubles>::runEvents(EventState &);
template FailureOr<bool> Machine<Field>::runEvents(EventState &);
template LogicalResult Machine<Doubles>::runSchedule(PipelineOp, ScheduleAttr, const Values &);
template LogicalResult Machine<Field>::runSchedule(PipelineOp, ScheduleAttr, const Values &);
