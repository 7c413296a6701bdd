//===- Schedule.cpp - Continuous-batching scheduler -----------------------===//

#include "generate/Schedule.h"
#include "core/Grid.h"
#include <algorithm>
#include <bit>

namespace tpc::rt {

int64_t roundedLength(int64_t tokens, int64_t maximum) {
  constexpr uint64_t step = 64;
  auto length = static_cast<uint64_t>(tokens);
  length = length <= step ? std::bit_ceil(length) : (length + step - 1) / step * step;
  return std::min(static_cast<int64_t>(length), maximum);
}

Schedule::Schedule(GenerationLimits limits, int numGroups, bool wholeGroups, bool fewShapes,
                   int64_t lastToken)
    : theLimits(limits), wholeGroups(wholeGroups), fewShapes(fewShapes), lastToken(lastToken),
      slots(static_cast<size_t>(limits.slots)) {
  int64_t count = std::clamp<int64_t>(numGroups, 1, limits.slots);
  for (int64_t i = 0; i < count; ++i) {
    Part part = partOf(limits.slots, count, i);
    groups.push_back({part.offset, part.offset + part.size});
  }
}

uint64_t Schedule::add(GenerationRequest request) {
  waiting.emplace_back(added, std::move(request));
  return added++;
}

void Schedule::cancel(uint64_t number) {
  auto queued = std::find_if(waiting.begin(), waiting.end(),
                             [&](const auto &each) { return each.first == number; });
  if (queued != waiting.end()) {
    events.push_back({number, 0, 0, Finish::Cancelled, ""});
    waiting.erase(queued);
    return;
  }
  for (SlotGroup &group : groups)
    for (int64_t i = group.begin; i < group.end; ++i)
      if (Slot &slot = slots[static_cast<size_t>(i)]; slot.number == number) {
        // A running step still writes to the slot.
        if (group.isInFlight)
          slot.isCancelled = true;
        else
          end(slot, Finish::Cancelled);
      }
}

void Schedule::end(Slot &slot, Finish why, const std::string &message) {
  events.push_back({*slot.number, 0, 0, why, message});
  slot = {};
  --running;
}

void Schedule::admit() {
  while (!waiting.empty()) {
    // Takes the first free slot of the group with the most free slots, so that running slots stay
    // adjacent.
    Slot *found = nullptr;
    int64_t maximum = 0;
    for (const SlotGroup &group : groups) {
      auto isFree = [](const Slot &slot) { return !slot.number; };
      auto begin = slots.begin() + group.begin, end = slots.begin() + group.end;
      if (int64_t free = std::count_if(begin, end, isFree); free > maximum) {
        maximum = free;
        found = &*std::find_if(begin, end, isFree);
      }
    }
    if (!found)
      return;
    auto &[number, request] = waiting.front();
    found->number = number;
    found->request = std::move(request);
    for (int64_t id : found->request.ids)
      found->see(id);
    waiting.pop_front();
    ++running;
  }
}

std::optional<StepItem> Schedule::next() {
  admit();
  for (size_t i = 0; i < groups.size(); ++i) {
    SlotGroup &group = groups[(nextGroup + i) % groups.size()];
    if (group.isInFlight)
      continue;
    std::optional<StepItem> item = nextOf(group);
    if (!item)
      continue;
    item->group = static_cast<int>(&group - groups.data());
    group.isInFlight = true;
    nextGroup = (nextGroup + i + 1) % groups.size();
    return item;
  }
  return std::nullopt;
}

std::optional<StepItem> Schedule::nextOf(SlotGroup &group) {
  std::vector<int64_t> prompts, others;
  for (int64_t i = group.begin; i < group.end; ++i)
    if (const Slot &slot = slots[static_cast<size_t>(i)]; slot.number)
      (slot.isInPrompt() ? prompts : others).push_back(i);
  bool isPrompt = !prompts.empty() && (others.empty() || !group.wasPrompt);
  std::vector<int64_t> &chosen = isPrompt ? prompts : others;
  if (chosen.empty())
    return std::nullopt;
  group.wasPrompt = isPrompt;
  // Prompts of different lengths in one step would need padding. So the oldest prompt runs alone,
  // unless a step covers all rows of a group anyway.
  if (isPrompt) {
    auto age = [&](int64_t i) { return *slots[static_cast<size_t>(i)].number; };
    int64_t oldest = *std::min_element(chosen.begin(), chosen.end(),
                                       [&](int64_t a, int64_t b) { return age(a) < age(b); });
    // Sources are not padded, so all rows of a step bring sources of one length.
    auto newSource = [&](int64_t i) { return slots[static_cast<size_t>(i)].newSource(); };
    std::erase_if(chosen, [&](int64_t i) {
      return wholeGroups ? newSource(i) != newSource(oldest) : i != oldest;
    });
  }
  return itemOf(group, chosen);
}

/// Copies ids of a prompt; the id of source token k becomes -1 - k.
static void copyPrompt(const GenerationRequest &request, int64_t first, int64_t count,
                       std::vector<int64_t>::iterator to) {
  auto from = request.ids.begin() + first;
  std::copy_n(from, count, to);
  if (int64_t token = request.source.token; token >= 0) {
    int64_t k = std::count(request.ids.begin(), from, token);
    for (auto end = to + count; to != end; ++to)
      if (*to == token)
        *to = -1 - k++;
  }
}

StepItem Schedule::itemOf(const SlotGroup &group, const std::vector<int64_t> &chosen) const {
  StepItem item;
  int64_t begin = chosen.front(), end = chosen.back() + 1;
  if (wholeGroups) {
    begin = group.begin, end = group.end;
  } else if (fewShapes) {
    int64_t own = begin - group.begin, size = 1;
    while (own / size * size + size < end - group.begin)
      size *= 2;
    begin = group.begin + own / size * size;
    end = std::min(begin + size, group.end);
  }
  item.first = begin;
  int64_t rows = end - begin;
  item.lengths.assign(static_cast<size_t>(rows), 0);
  item.counts.assign(static_cast<size_t>(rows), 0);
  // A step appends to the caches of all its rows; rows without a token append after their lengths.
  item.sourceLengths.assign(static_cast<size_t>(rows), 0);
  item.sources.assign(static_cast<size_t>(rows), nullptr);
  for (int64_t row = 0; row < rows; ++row)
    if (const Slot &slot = slots[static_cast<size_t>(item.first + row)]; slot.number) {
      item.lengths[static_cast<size_t>(row)] = slot.length;
      item.sourceLengths[static_cast<size_t>(row)] = slot.request.source.size() - slot.newSource();
    }
  for (int64_t i : chosen) {
    const Slot &slot = slots[static_cast<size_t>(i)];
    auto row = static_cast<size_t>(i - item.first);
    int64_t remaining = std::ssize(slot.request.ids) - slot.length;
    item.counts[row] = slot.isInPrompt() ? std::min(remaining, theLimits.chunk) : 1;
    item.sequence = std::max(item.sequence, item.counts[row]);
    if (slot.newSource()) {
      item.source = slot.newSource();
      item.sources[row] = &slot.request.source;
    }
    if (slot.request.maxNewTokens > 0 && remaining <= item.counts[row])
      item.sampled.push_back(i - item.first);
  }
  if (fewShapes)
    item.sequence = roundedLength(item.sequence, theLimits.chunk);
  item.ids.assign(static_cast<size_t>(rows * item.sequence), 0);
  for (int64_t i : chosen) {
    const Slot &slot = slots[static_cast<size_t>(i)];
    int64_t row = i - item.first;
    auto to = item.ids.begin() + row * item.sequence;
    if (slot.isInPrompt())
      copyPrompt(slot.request, slot.length, item.counts[static_cast<size_t>(row)], to);
    else
      *to = slot.token;
  }
  return item;
}

int64_t Schedule::stepsAfter(const StepItem &item) const {
  const SlotGroup &group = groups[static_cast<size_t>(item.group)];
  int64_t steps = std::numeric_limits<int64_t>::max(), used = 0;
  for (int64_t i = group.begin; i < group.end; ++i)
    used += slots[static_cast<size_t>(i)].number.has_value();
  // A waiting request may take a free slot, or another row of the group is still in its prompt.
  if ((used < group.end - group.begin && !waiting.empty()) || used != std::ssize(item.sampled))
    return 0;
  for (int64_t row : item.sampled) {
    const Slot &slot = slots[static_cast<size_t>(item.first + row)];
    steps = std::min({steps, slot.request.maxNewTokens - slot.generated - 1,
                      theLimits.capacity - slot.length - 1});
  }
  return steps;
}

bool Schedule::mayStop(const StepItem &item) const {
  return std::any_of(item.sampled.begin(), item.sampled.end(), [&](int64_t row) {
    return !slots[static_cast<size_t>(item.first + row)].request.stopIds.empty();
  });
}

std::optional<StepItem> Schedule::following(const StepItem &last) {
  StepItem item;
  item.group = last.group;
  item.first = last.first;
  item.sequence = 1;
  auto rows = static_cast<size_t>(last.rows());
  item.ids.assign(rows, 0);
  item.lengths.assign(rows, 0);
  item.counts.assign(rows, 0);
  for (size_t row = 0; row < rows; ++row) {
    const Slot &slot = slots[static_cast<size_t>(item.first) + row];
    if (!slot.number)
      continue;
    item.lengths[row] = slot.length;
    if (last.counts[row] == 0)
      continue;
    item.ids[row] = slot.token;
    item.counts[row] = 1;
    item.sampled.push_back(static_cast<int64_t>(row));
  }
  if (item.sampled.empty())
    return std::nullopt;
  groups[static_cast<size_t>(item.group)].isInFlight = true;
  return item;
}

std::vector<SampledRow> Schedule::rowsOf(const StepItem &item) const {
  std::vector<SampledRow> rows;
  for (int64_t row : item.sampled) {
    const Slot &slot = slots[static_cast<size_t>(item.first + row)];
    rows.push_back({slot.request.sampling, slot.seen, slot.request.stream,
                    slot.length + item.counts[static_cast<size_t>(row)]});
  }
  return rows;
}

void Schedule::takeToken(Slot &slot, const SampledToken &token) {
  if (token.isNaN)
    return end(slot, Finish::Error,
               "the model's logits are NaN after " + std::to_string(slot.length) +
                   " tokens, first for token " + std::to_string(token.token));
  events.push_back({*slot.number, token.token, slot.generated++, std::nullopt, ""});
  slot.token = token.token;
  slot.see(token.token);
  const GenerationRequest &request = slot.request;
  if (std::find(request.stopIds.begin(), request.stopIds.end(), token.token) !=
      request.stopIds.end())
    end(slot, Finish::Stop);
  else if (slot.generated == request.maxNewTokens || slot.length == theLimits.capacity)
    end(slot, Finish::Length);
  else if (token.token > lastToken)
    end(slot, Finish::Error,
        "the model generated token " + std::to_string(token.token) +
            ", but accepts no token above " + std::to_string(lastToken));
}

void Schedule::finish(const StepItem &item, std::span<const SampledToken> tokens) {
  SlotGroup &group = groups[static_cast<size_t>(item.group)];
  group.isInFlight = false;
  size_t next = 0;
  for (int64_t row = 0; row < item.rows(); ++row) {
    Slot &slot = slots[static_cast<size_t>(item.first + row)];
    int64_t count = item.counts[static_cast<size_t>(row)];
    bool isSampled = next < item.sampled.size() && item.sampled[next] == row;
    const SampledToken *token = isSampled ? &tokens[next++] : nullptr;
    if (count == 0 || slot.isCancelled)
      continue;
    slot.length += count;
    if (token)
      takeToken(slot, *token);
    else if (!slot.isInPrompt()) // only logits of the prompt were requested
      end(slot, Finish::Length);
  }
  for (int64_t i = group.begin; i < group.end; ++i)
    if (Slot &slot = slots[static_cast<size_t>(i)]; slot.isCancelled)
      end(slot, Finish::Cancelled);
}

} // namespace tpc::rt
