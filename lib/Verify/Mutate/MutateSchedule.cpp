//===- MutateSchedule.cpp - Faults in schedules of pipelines --------------===//

#include "Mutate.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::ScheduleEvent;
using ::tpc::SchedulePhase;
using ::tpc::ScheduleTable;

using Events = std::vector<ScheduleEvent>;

/// Calls `change` with the events of the rank that the seed selects, and replaces the schedule.
static bool changeEvents(Mutator &m, llvm::function_ref<bool(Events &)> change) {
  auto pipeline = m.pick<PipelineOp>([](PipelineOp p) { return bool(p.getScheduleAttr()); });
  if (!pipeline)
    return false;
  ScheduleAttr schedule = pipeline.getScheduleAttr();
  int64_t ranks = schedule.getRanks().size();
  ScheduleTable table;
  for (int64_t rank = 0; rank < ranks; ++rank)
    table.push_back(schedule.getEvents(rank));
  if (ranks == 0 || !change(table[m.draw(ranks)]))
    return false;
  pipeline.setScheduleAttr(ScheduleAttr::get(m.context, schedule.getPolicy(), table));
  return true;
}

static bool dropEvent(Mutator &m) {
  return changeEvents(m, [&](Events &events) {
    events.erase(events.begin() + m.seed % events.size());
    return true;
  });
}

static bool repeatEvent(Mutator &m) {
  return changeEvents(m, [&](Events &events) {
    size_t at = m.seed % events.size();
    events.insert(events.begin() + at, events[at]);
    return true;
  });
}

/// Exchanges two events of one rank for which `isPair` holds.
static bool swapEvents(Mutator &m,
                       function_ref<bool(const ScheduleEvent &, const ScheduleEvent &)> isPair) {
  return changeEvents(m, [&](Events &events) {
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t i = 0; i < events.size(); ++i)
      for (size_t j = i + 1; j < events.size(); ++j)
        if (isPair(events[i], events[j]))
          pairs.push_back({i, j});
    if (pairs.empty())
      return false;
    auto [i, j] = pairs[m.seed % pairs.size()];
    std::swap(events[i], events[j]);
    return true;
  });
}

/// Exchanges two events of one micro-batch and chunk.
static bool swapPhases(Mutator &m) {
  return swapEvents(m, [](const ScheduleEvent &a, const ScheduleEvent &b) {
    return a.chunk == b.chunk && a.microBatch == b.microBatch;
  });
}

/// Exchanges two messages of the same phase on one rank.
static bool swapMessages(Mutator &m) {
  return swapEvents(m, [](const ScheduleEvent &a, const ScheduleEvent &b) {
    return a.phase == b.phase && a.phase != SchedulePhase::Forward;
  });
}

/// Moves the forward sends of a rank after all other events.
static bool delaySends(Mutator &m) {
  return changeEvents(m, [&](Events &events) {
    Events sends;
    std::erase_if(events, [&](const ScheduleEvent &event) {
      bool isSend = event.phase == SchedulePhase::SendForward;
      if (isSend)
        sends.push_back(event);
      return isSend;
    });
    events.insert(events.end(), sends.begin(), sends.end());
    return sends.size() > 1;
  });
}

static bool otherMicroBatch(Mutator &m) {
  return changeEvents(m, [&](Events &events) {
    ++events[m.seed % events.size()].microBatch;
    return true;
  });
}

static bool otherChunk(Mutator &m) {
  return changeEvents(m, [&](Events &events) {
    std::vector<int64_t> chunks;
    for (const ScheduleEvent &event : events)
      if (!llvm::is_contained(chunks, event.chunk))
        chunks.push_back(event.chunk);
    if (chunks.size() < 2)
      return false;
    ScheduleEvent &event = events[m.seed % events.size()];
    event.chunk = chunks[(llvm::find(chunks, event.chunk) - chunks.begin() + 1) % chunks.size()];
    return true;
  });
}

static SmallVector<func::CallOp> findCalls(StageOp stage) {
  SmallVector<func::CallOp> found;
  for (auto loop : stage.getBody().getOps<MicroBatchesOp>())
    llvm::append_range(found, loop.getBody().getOps<func::CallOp>());
  return found;
}

/// Exchanges the functions of two calls of equal types, on one rank or on two: each computes with
/// the weights of the other chunk.
static bool swapCalls(Mutator &m, bool isOneRank) {
  using Pair = std::pair<func::CallOp, func::CallOp>;
  SmallVector<Pair> pairs;
  SmallVector<func::CallOp> all;
  m.module.walk([&](StageOp stage) { llvm::append_range(all, findCalls(stage)); });
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j)
      if ((all[i]->getParentOfType<StageOp>() == all[j]->getParentOfType<StageOp>()) == isOneRank &&
          all[i].getCalleeType() == all[j].getCalleeType())
        pairs.push_back({all[i], all[j]});
  if (pairs.empty())
    return false;
  auto [a, b] = pairs[m.seed % pairs.size()];
  m.location = a;
  auto callee = a.getCalleeAttr();
  a.setCalleeAttr(b.getCalleeAttr());
  b.setCalleeAttr(callee);
  return true;
}

static bool swapChunks(Mutator &m) { return swapCalls(m, /*isOneRank=*/true); }
static bool swapChunksOfRanks(Mutator &m) { return swapCalls(m, /*isOneRank=*/false); }

/// Two chunks of a rank exchange all of their events.
static bool swapChunkEvents(Mutator &m) {
  return changeEvents(m, [&](Events &events) {
    SmallVector<int64_t> chunks;
    for (const ScheduleEvent &event : events)
      if (!llvm::is_contained(chunks, event.chunk))
        chunks.push_back(event.chunk);
    if (chunks.size() < 2)
      return false;
    size_t first = m.seed % (chunks.size() - 1);
    for (ScheduleEvent &event : events)
      for (size_t i : {first, first + 1})
        if (event.chunk == chunks[i]) {
          event.chunk = chunks[2 * first + 1 - i];
          break;
        }
    return true;
  });
}

/// A rank runs its chunks in the other order.
static bool swapLoops(Mutator &m) {
  auto loopsOf = [](StageOp stage) {
    return llvm::to_vector(stage.getBody().getOps<MicroBatchesOp>());
  };
  auto stage = m.pick<StageOp>([&](StageOp s) { return loopsOf(s).size() > 1; });
  if (!stage)
    return false;
  SmallVector<MicroBatchesOp> loops = loopsOf(stage);
  loops.back()->moveBefore(loops.front());
  return true;
}

/// Two ranks with different lists of events exchange them.
static bool swapRanks(Mutator &m) {
  auto pipeline = m.pick<PipelineOp>([](PipelineOp p) { return bool(p.getScheduleAttr()); });
  if (!pipeline)
    return false;
  ScheduleAttr schedule = pipeline.getScheduleAttr();
  SmallVector<DenseI64ArrayAttr> ranks(schedule.getRanks());
  SmallVector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < ranks.size(); ++i)
    for (size_t j = i + 1; j < ranks.size(); ++j)
      if (ranks[i] != ranks[j])
        pairs.push_back({i, j});
  if (pairs.empty())
    return false;
  auto [i, j] = pairs[m.seed % pairs.size()];
  std::swap(ranks[i], ranks[j]);
  pipeline.setScheduleAttr(ScheduleAttr::get(m.context, schedule.getPolicy(), ranks));
  return true;
}

ArrayRef<Mutation> mutate::getScheduleMutations() {
  static constexpr Mutation mutations[] = {
      {"schedule-drop", "an event is removed", dropEvent},
      {"schedule-repeat", "an event is repeated", repeatEvent},
      {"schedule-swap-phases", "two phases of a micro-batch are exchanged", swapPhases},
      {"schedule-swap-messages", "a rank exchanges two messages", swapMessages},
      {"schedule-late-sends", "a rank sends after all other events", delaySends},
      {"schedule-other-micro-batch", "an event is of the next micro-batch", otherMicroBatch},
      {"schedule-other-chunk", "an event is of another chunk of the rank", otherChunk},
      {"schedule-swap-chunks", "two chunks of a rank exchange their weights", swapChunks},
      {"schedule-swap-chunks-of-ranks", "two ranks exchange the weights of a chunk",
       swapChunksOfRanks},
      {"schedule-swap-chunk-events", "two chunks of a rank exchange their events", swapChunkEvents},
      {"schedule-swap-loops", "the loops of a rank are in another order", swapLoops},
      {"schedule-swap-ranks", "two ranks exchange their events", swapRanks},
  };
  return mutations;
}
