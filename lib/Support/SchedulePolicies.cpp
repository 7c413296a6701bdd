//===- SchedulePolicies.cpp - Generators of pipeline schedules ------------===//

#include "tpc/Support/PipelineSchedule.h"

#include <algorithm>

using namespace tpc;
using enum SchedulePhase;

/// All forward events, micro-batch by micro-batch.
static ScheduleTable makeForward(const PipelineShape &shape) {
  ScheduleTable table(shape.ranks);
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    for (int64_t i = 0; i < shape.microBatches; ++i)
      table[rank].push_back({Forward, rank, i});
  return table;
}

/// Returns the events of one phase on a rank. Groups of `group` micro-batches pass through all
/// chunks of the rank, in descending order for gradients, before the next group begins. The last
/// group may be smaller.
static std::vector<ScheduleEvent> makeGroups(const PipelineShape &shape, int64_t rank,
                                             int64_t group, SchedulePhase phase) {
  std::vector<ScheduleEvent> events;
  for (int64_t first = 0; first < shape.microBatches; first += group)
    for (int64_t c = 0; c < shape.chunksPerRank; ++c) {
      int64_t chunk = phase == Forward ? c : shape.chunksPerRank - 1 - c;
      for (int64_t i = first; i < std::min(first + group, shape.microBatches); ++i)
        events.push_back({phase, chunk * shape.ranks + rank, i});
    }
  return events;
}

static ScheduleTable makeInterleaved(const PipelineShape &shape) {
  ScheduleTable table;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    table.push_back(makeGroups(shape, rank, shape.ranks, Forward));
  return table;
}

/// Alternates: a warm-up of forward events, then one forward and one backward in turn, with the
/// backward first or second, then the remaining backward events.
static std::vector<ScheduleEvent> alternate(const std::vector<ScheduleEvent> &forward,
                                            const std::vector<ScheduleEvent> &backward,
                                            int64_t warmUp, bool backwardFirst) {
  warmUp = std::min(warmUp, int64_t(forward.size()));
  std::vector<ScheduleEvent> events(forward.begin(), forward.begin() + warmUp);
  auto next = forward.begin() + warmUp;
  for (const ScheduleEvent &event : backward) {
    bool hasForward = next != forward.end();
    if (hasForward && !backwardFirst)
      events.push_back(*next++);
    events.push_back(event);
    if (hasForward && backwardFirst)
      events.push_back(*next++);
  }
  return events;
}

/// All forward events, then all backward events, both by ascending micro-batch.
static ScheduleTable makeGPipe(const PipelineShape &shape) {
  ScheduleTable table = makeForward(shape);
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    for (int64_t i = 0; i < shape.microBatches; ++i)
      table[rank].push_back({Backward, rank, i});
  return table;
}

/// "Memory-efficient pipeline-parallel DNN training", arXiv 2006.09503: at most
/// ranks - rank micro-batches are in flight.
static ScheduleTable make1F1B(const PipelineShape &shape) {
  ScheduleTable table;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    table.push_back(alternate(makeGroups(shape, rank, shape.microBatches, Forward),
                              makeGroups(shape, rank, shape.microBatches, Backward),
                              shape.ranks - rank, /*backwardFirst=*/true));
  return table;
}

static int64_t getGroup(const PipelineShape &shape) {
  return shape.microBatches / std::max<int64_t>(1, shape.microBatches / shape.ranks);
}

/// Number of forward events before the first backward event of a rank. `perHop`: additional events
/// for each rank between it and the last one.
static int64_t getWarmUp(const PipelineShape &shape, int64_t rank, int64_t perHop) {
  return (shape.chunksPerRank - 1) * getGroup(shape) + perHop * (shape.ranks - 1 - rank);
}

/// "Efficient large-scale language model training on GPU clusters", arXiv 2104.04473.
static ScheduleTable makeInterleaved1F1B(const PipelineShape &shape) {
  ScheduleTable table;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    table.push_back(alternate(makeGroups(shape, rank, getGroup(shape), Forward),
                              makeGroups(shape, rank, getGroup(shape), Backward),
                              getWarmUp(shape, rank, 2), /*backwardFirst=*/false));
  return table;
}

/// "Zero bubble pipeline parallelism", arXiv 2401.10241, ZB-H1: rank r computes the gradients of
/// weights r events later than those of inputs, and the rest at the end.
static ScheduleTable makeZeroBubble(const PipelineShape &shape) {
  ScheduleTable table(shape.ranks);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<ScheduleEvent> backward = makeGroups(shape, rank, getGroup(shape), Backward);
    auto weights = backward.begin();
    int64_t done = 0;
    auto addWeights = [&] {
      table[rank].push_back({WeightGradient, weights->chunk, weights->microBatch});
      ++weights;
    };
    for (const ScheduleEvent &event :
         alternate(makeGroups(shape, rank, getGroup(shape), Forward), backward,
                   getWarmUp(shape, rank, 1), /*backwardFirst=*/false)) {
      table[rank].push_back(event);
      if (event.phase == Backward && done++ >= rank)
        addWeights();
    }
    while (weights != backward.end())
      addWeights();
  }
  return table;
}

/// "Zero bubble pipeline parallelism", arXiv 2401.10241, section 6, ZB-V: rank r has the chunks r
/// and 2p-1-r. In the steady state, it computes F, B and W of one chunk and then of the other.
static std::vector<ScheduleEvent> makeEventsOfV(const PipelineShape &shape, int64_t rank) {
  int64_t chunks[] = {rank, shape.chunks() - 1 - rank};
  // The order is that of enough micro-batches for a steady state. Those beyond the shape are left
  // out.
  int64_t count = std::max(2 * shape.ranks - 1, shape.microBatches);
  std::vector<ScheduleEvent> events;
  int64_t next[2][numSchedulePhases] = {}; // micro-batch of the next event of a chunk, by phase
  auto add = [&](int which, std::initializer_list<SchedulePhase> phases) {
    for (SchedulePhase phase : phases)
      if (int64_t i = next[which][unsigned(phase)]++; i < shape.microBatches)
        events.push_back({phase, chunks[which], i});
  };
  int64_t following = shape.ranks - rank;
  for (int64_t i = 0; i < 2 * following - 1; ++i)
    add(0, {Forward});
  for (int64_t i = 0; i < rank; ++i) {
    add(1, {Forward});
    add(0, {Forward});
  }
  for (int64_t i = 0; i < following; ++i)
    add(1, {Forward, Backward, WeightGradient});
  const int64_t &first = next[0][unsigned(Forward)], &second = next[1][unsigned(Forward)];
  while (second < first || first < count) {
    if (first < count)
      add(0, {Forward});
    add(0, {Backward, WeightGradient});
    add(1, {Forward, Backward, WeightGradient});
  }
  for (int64_t i = 0; i < rank; ++i) {
    add(0, {Backward});
    add(1, {Backward});
  }
  for (int64_t i = 0; i < following; ++i)
    add(0, {Backward, WeightGradient});
  for (int which : {1, 0})
    while (next[which][unsigned(WeightGradient)] < next[which][unsigned(Backward)])
      add(which, {WeightGradient});
  return events;
}

static ScheduleTable makeZeroBubbleV(const PipelineShape &shape) {
  ScheduleTable table;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    table.push_back(makeEventsOfV(shape, rank));
  return table;
}

static int64_t countMicroBatches(const PipelineShape &shape, int64_t) { return shape.microBatches; }
static int64_t countFollowing(const PipelineShape &shape, int64_t rank) {
  return shape.ranks - rank;
}
static int64_t countWarmUp(const PipelineShape &shape, int64_t rank) {
  return getWarmUp(shape, rank, 2) + 1;
}
/// The gradients of weights are computed `rank` events late.
static int64_t countDelayed(const PipelineShape &shape, int64_t rank) {
  return getWarmUp(shape, rank, 1) + 1 + rank;
}
static int64_t countChunks(const PipelineShape &shape, int64_t) { return shape.chunks(); }

std::span<const SchedulePolicy> tpc::getSchedulePolicies() {
  using Groups = SchedulePolicy::Groups;
  using Chunks = SchedulePolicy::Chunks;
  static constexpr SchedulePolicy policies[] = {
      {"gpipe", "each rank runs its chunk for one micro-batch after the other", Chunks::One, false,
       Groups::Any, makeForward},
      {"interleaved", "groups of pp micro-batches pass through all chunks of a rank", Chunks::Any,
       false, Groups::Any, makeInterleaved},
      {"gpipe-training", "all forward events, then all backward events", Chunks::One, true,
       Groups::Any, makeGPipe, countMicroBatches},
      {"1f1b", "one forward and one backward event in turn", Chunks::One, true, Groups::Any,
       make1F1B, countFollowing},
      {"interleaved-1f1b", "1f1b with several chunks per rank", Chunks::Any, true, Groups::Equal,
       makeInterleaved1F1B, countWarmUp},
      {"zb-h1", "1f1b with gradients of weights in idle slots", Chunks::Any, true, Groups::Equal,
       makeZeroBubble, countDelayed},
      {"zb-v", "two chunks per rank in a V, with gradients of weights in idle slots", Chunks::Two,
       true, Groups::Any, makeZeroBubbleV, countChunks},
  };
  return policies;
}
