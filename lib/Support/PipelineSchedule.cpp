//===- PipelineSchedule.cpp - Events of pipeline ranks --------------------===//

#include "tpc/Support/PipelineSchedule.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

using namespace tpc;

static constexpr std::string_view phaseNames[numSchedulePhases] = {"F", "B", "W", "SF", "RF"};

std::string ScheduleEvent::str() const {
  return std::string(phaseNames[unsigned(phase)]) + std::to_string(chunk) + "." +
         std::to_string(microBatch);
}

std::optional<ScheduleEvent> ScheduleEvent::parse(std::string_view text) {
  size_t digits = std::min(text.find_first_of("0123456789"), text.size());
  const auto *name =
      std::find(std::begin(phaseNames), std::end(phaseNames), text.substr(0, digits));
  if (name == std::end(phaseNames))
    return std::nullopt;
  ScheduleEvent event;
  event.phase = SchedulePhase(name - std::begin(phaseNames));
  const char *end = text.data() + text.size();
  auto chunk = std::from_chars(text.data() + digits, end, event.chunk);
  if (chunk.ec != std::errc() || chunk.ptr == end || *chunk.ptr != '.')
    return std::nullopt;
  auto microBatch = std::from_chars(chunk.ptr + 1, end, event.microBatch);
  if (microBatch.ec != std::errc() || microBatch.ptr != end || event.microBatch < 0)
    return std::nullopt;
  return event;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

static bool isMessage(const ScheduleEvent &event) {
  return event.phase == SchedulePhase::SendForward || event.phase == SchedulePhase::ReceiveForward;
}

namespace {
using EventKey = std::tuple<SchedulePhase, int64_t, int64_t>;
} // namespace

static EventKey keyOf(const ScheduleEvent &event) {
  return {event.phase, event.chunk, event.microBatch};
}

/// Returns the slot after which an event can begin; nothing if an event that it needs is not
/// computed yet.
static std::optional<int64_t> getReady(const ScheduleEvent &event, int64_t chunks,
                                       const std::map<EventKey, int64_t> &ends) {
  int64_t ready = 0;
  auto needs = [&](SchedulePhase phase, int64_t chunk) {
    auto it = ends.find({phase, chunk, event.microBatch});
    if (it == ends.end())
      return false;
    ready = std::max(ready, it->second);
    return true;
  };
  bool known = true;
  if (event.phase == SchedulePhase::Forward && event.chunk > 0)
    known = needs(SchedulePhase::Forward, event.chunk - 1);
  if (event.phase == SchedulePhase::Backward)
    known = needs(SchedulePhase::Forward, event.chunk) &&
            (event.chunk + 1 == chunks || needs(SchedulePhase::Backward, event.chunk + 1));
  if (event.phase == SchedulePhase::WeightGradient)
    known = needs(SchedulePhase::Backward, event.chunk);
  return known ? std::optional(ready) : std::nullopt;
}

/// Returns the slot at which each event ends. Events that wait in a cycle are missing.
static std::map<EventKey, int64_t> getEnds(const ScheduleTable &table, int64_t chunks) {
  std::map<EventKey, int64_t> ends;
  std::vector<size_t> next(table.size());
  std::vector<int64_t> free(table.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t rank = 0; rank < table.size(); ++rank)
      for (; next[rank] < table[rank].size(); ++next[rank]) {
        const ScheduleEvent &event = table[rank][next[rank]];
        if (isMessage(event))
          continue;
        std::optional<int64_t> ready = getReady(event, chunks, ends);
        if (!ready)
          break;
        free[rank] = std::max(free[rank], *ready) + 1;
        ends[keyOf(event)] = free[rank];
        progress = true;
      }
  }
  return ends;
}

ScheduleSlots tpc::countSlots(const ScheduleTable &table, int64_t chunks) {
  ScheduleSlots result;
  for (const auto &[key, end] : getEnds(table, chunks)) {
    result.slots = std::max(result.slots, end);
    ++result.busy;
  }
  result.idle = result.slots * int64_t(table.size()) - result.busy;
  return result;
}

//===----------------------------------------------------------------------===//
// Check
//===----------------------------------------------------------------------===//

/// Returns the maximum number of pairs (chunk, micro-batch) in flight on one rank: after their
/// forward event and before their event of phase `last`.
static int64_t countInFlight(const std::vector<ScheduleEvent> &events, SchedulePhase last) {
  int64_t now = 0, maximum = 0;
  for (const ScheduleEvent &event : events) {
    now += event.phase == SchedulePhase::Forward ? 1 : event.phase == last ? -1 : 0;
    maximum = std::max(maximum, now);
  }
  return maximum;
}

std::string tpc::checkSchedule(const SchedulePolicy &policy, const PipelineShape &shape,
                               const ScheduleTable &table) {
  if (int64_t(table.size()) != shape.ranks)
    return "it has " + std::to_string(table.size()) + " ranks";
  std::map<int64_t, size_t> rankOf;
  std::set<EventKey> seen;
  int64_t numbers[numSchedulePhases] = {};
  for (size_t rank = 0; rank < table.size(); ++rank) {
    std::set<int64_t> chunks;
    for (const ScheduleEvent &event : table[rank]) {
      if (isMessage(event) || event.chunk < 0 || event.chunk >= shape.chunks() ||
          event.microBatch < 0 || event.microBatch >= shape.microBatches)
        return event.str() + " is no event of its shape";
      if (rankOf.try_emplace(event.chunk, rank).first->second != rank)
        return "chunk " + std::to_string(event.chunk) + " is on two ranks";
      if (!seen.insert(keyOf(event)).second)
        return event.str() + " is computed twice";
      chunks.insert(event.chunk);
      ++numbers[unsigned(event.phase)];
    }
    if (int64_t(chunks.size()) != shape.chunksPerRank)
      return "rank " + std::to_string(rank) + " has " + std::to_string(chunks.size()) + " chunks";
  }
  bool hasWeights = numbers[unsigned(SchedulePhase::WeightGradient)];
  for (auto [phase, isNeeded] : {std::pair(SchedulePhase::Forward, true),
                                 {SchedulePhase::Backward, policy.isTraining},
                                 {SchedulePhase::WeightGradient, policy.isTraining && hasWeights}})
    if (numbers[unsigned(phase)] != (isNeeded ? shape.chunks() * shape.microBatches : 0))
      return "it has " + std::to_string(numbers[unsigned(phase)]) + " events of phase " +
             std::string(phaseNames[unsigned(phase)]);
  std::map<EventKey, int64_t> ends = getEnds(table, shape.chunks());
  for (const std::vector<ScheduleEvent> &events : table)
    for (const ScheduleEvent &event : events)
      if (!ends.contains(keyOf(event)))
        return event.str() + " waits in a cycle";
  SchedulePhase last = hasWeights ? SchedulePhase::WeightGradient : SchedulePhase::Backward;
  for (size_t rank = 0; policy.getMaxInFlight && rank < table.size(); ++rank) {
    int64_t maximum = countInFlight(table[rank], last);
    if (int64_t bound = policy.getMaxInFlight(shape, int64_t(rank)); maximum > bound)
      return "rank " + std::to_string(rank) + " has " + std::to_string(maximum) +
             " micro-batches of chunks in flight, more than " + std::to_string(bound);
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

// A message follows the slot in which its value is computed. Messages of one slot are ordered
// against the ring, with the message from the last rank to the first at the end:
//
//     rank p-2 to p-1,  p-3 to p-2,  …,  0 to 1,  p-1 to 0
//
// All ranks follow this order of (slot, position), so the first message that is not taken can
// always proceed.
ScheduleTable tpc::addMessages(const ScheduleTable &table, int64_t chunks) {
  std::map<EventKey, int64_t> ends = getEnds(table, chunks);
  std::vector<int64_t> rankOf(chunks);
  for (size_t rank = 0; rank < table.size(); ++rank)
    for (const ScheduleEvent &event : table[rank])
      rankOf[event.chunk] = int64_t(rank);
  // Order of an event on its rank: messages of a slot precede the computation of the next slot.
  struct Ordered {
    int64_t slot, kind, position;
    ScheduleEvent event;
  };
  std::vector<std::vector<Ordered>> ranks(table.size());
  for (size_t rank = 0; rank < table.size(); ++rank)
    for (const ScheduleEvent &event : table[rank]) {
      int64_t end = ends.at(keyOf(event));
      ranks[rank].push_back({end, 0, 0, event});
      if (event.phase != SchedulePhase::Forward || event.chunk + 1 == chunks)
        continue;
      int64_t from = int64_t(rank), to = rankOf[event.chunk + 1];
      if (from == to)
        continue;
      int64_t position = from < to ? -from : 1;
      ranks[from].push_back(
          {end, 1, position, {SchedulePhase::SendForward, event.chunk, event.microBatch}});
      ranks[to].push_back(
          {end, 1, position, {SchedulePhase::ReceiveForward, event.chunk + 1, event.microBatch}});
    }
  ScheduleTable result(table.size());
  for (size_t rank = 0; rank < table.size(); ++rank) {
    std::stable_sort(ranks[rank].begin(), ranks[rank].end(), [](const auto &a, const auto &b) {
      return std::tie(a.slot, a.kind, a.position) < std::tie(b.slot, b.kind, b.position);
    });
    for (const Ordered &ordered : ranks[rank])
      result[rank].push_back(ordered.event);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

std::optional<ScheduleTable> tpc::makeSchedule(std::string_view name, const PipelineShape &shape,
                                               std::string &error) {
  std::string known;
  for (const SchedulePolicy &policy : getSchedulePolicies()) {
    known += (known.empty() ? "" : ", ") + std::string(policy.name);
    if (policy.name != name)
      continue;
    std::string text = "the schedule '" + std::string(name) + "' ";
    if (shape.chunksPerRank > 1 && policy.chunks == SchedulePolicy::Chunks::One) {
      error = text + "has one chunk on each rank of pp, but vpp" +
              std::to_string(shape.chunksPerRank) + " asks for several; use an interleaved one";
      return std::nullopt;
    }
    if (shape.chunksPerRank != 2 && policy.chunks == SchedulePolicy::Chunks::Two) {
      error = text + "has two chunks on each rank of pp; write vpp2";
      return std::nullopt;
    }
    int64_t groups = std::max<int64_t>(1, shape.microBatches / shape.ranks);
    if (policy.groups == SchedulePolicy::Groups::Equal && shape.microBatches % groups) {
      int64_t multiple = groups * shape.ranks;
      error = text + "needs " + std::to_string(groups) + " groups of equally many micro-batches, " +
              "but mb is " + std::to_string(shape.microBatches) + "; write mb" +
              std::to_string(multiple) + " or mb" + std::to_string(multiple + shape.ranks);
      return std::nullopt;
    }
    ScheduleTable table = policy.make(shape);
    if (std::string why = checkSchedule(policy, shape, table); !why.empty()) {
      error = text + "is wrong: " + why;
      return std::nullopt;
    }
    return table;
  }
  error = "there is no schedule '" + std::string(name) + "'; use one of " + known;
  return std::nullopt;
}
