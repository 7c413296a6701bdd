//===- Races.cpp - Race detector ------------------------------------------===//

#include "Races.h"

#include <algorithm>

using namespace sim;

void sim::join(Clock &into, const Clock &other) {
  if (into.size() < other.size())
    into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    into[i] = std::max(into[i], other[i]);
}

std::map<uint64_t, Races::Segment>::iterator Races::split(uint64_t at) {
  auto found = std::prev(segments.upper_bound(at));
  if (found->first == at)
    return found;
  return segments.emplace_hint(std::next(found), at, found->second);
}

void Races::merge(uint64_t from, uint64_t to) {
  auto it = segments.find(from);
  if (it != segments.begin())
    --it;
  while (it != segments.end() && it->first <= to) {
    auto next = std::next(it);
    if (next != segments.end() && next->first <= to && next->second == it->second)
      segments.erase(next);
    else
      it = next;
  }
}

std::unique_ptr<Access> Races::note(uint64_t from, uint64_t to, bool write, const Access &self,
                                    const Clock &clock) {
  std::unique_ptr<Access> found;
  if (from >= to)
    return found;
  auto begin = split(from), end = split(to);
  auto check = [&](const Access &other) {
    if (!found && !(other == self) && !other.before(clock))
      found = std::make_unique<Access>(other);
  };
  for (auto it = begin; it != end; ++it) {
    Segment &segment = it->second;
    check(segment.write);
    if (!write) {
      // Reads before this one are also before each later access that is ordered after this one.
      std::erase_if(segment.reads, [&](const Access &read) { return read.before(clock); });
      segment.reads.push_back(self);
      continue;
    }
    for (const Access &read : segment.reads)
      check(read);
  }
  if (write) {
    segments.erase(std::next(begin), end);
    begin->second = {self, {}};
  }
  merge(from, to);
  return found;
}

void Races::forget(uint64_t from, uint64_t to) {
  if (from >= to)
    return;
  auto begin = split(from), end = split(to);
  segments.erase(std::next(begin), end);
  begin->second = {};
  merge(from, to);
}
