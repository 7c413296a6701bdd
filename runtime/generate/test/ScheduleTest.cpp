//===- ScheduleTest.cpp - Tests of the scheduler --------------------------===//

#include "generate/Schedule.h"
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

using namespace tpc::rt;

namespace {

GenerationRequest requestOf(std::vector<int64_t> ids, int64_t maxNewTokens = 4) {
  GenerationRequest request;
  request.ids = std::move(ids);
  request.maxNewTokens = maxNewTokens;
  return request;
}

using Ids = std::vector<int64_t>;

/// Contents of the caches: tokens of all slots.
class Caches {
public:
  Caches(GenerationLimits limits)
      : capacity(limits.capacity), rows(static_cast<size_t>(limits.slots)) {}
  /// Writes an item's tokens. A step writes garbage after them, and in rows without tokens.
  void run(const StepItem &item) {
    for (int64_t row = 0; row < item.rows(); ++row) {
      Ids &tokens = rows.at(static_cast<size_t>(item.first + row));
      int64_t length = item.lengths[static_cast<size_t>(row)],
              count = item.counts[static_cast<size_t>(row)];
      ASSERT_LE(length, std::ssize(tokens));
      ASSERT_LE(length + count, capacity);
      tokens.resize(static_cast<size_t>(length));
      auto from = item.ids.begin() + row * item.sequence;
      tokens.insert(tokens.end(), from, from + count);
    }
  }
  /// Returns a token that depends on all tokens before it.
  SampledToken next(int64_t slot) const {
    int64_t sum = 7;
    for (int64_t id : rows.at(static_cast<size_t>(slot)))
      sum = (sum * 31 + id) % 97;
    return {sum, false};
  }
  std::vector<SampledToken> sample(const StepItem &item) const {
    std::vector<SampledToken> tokens;
    for (int64_t row : item.sampled)
      tokens.push_back(next(item.first + row));
    return tokens;
  }

private:
  int64_t capacity;
  std::vector<Ids> rows;
};

/// Expected tokens of a prompt that runs alone.
Ids expectedOf(Ids ids, int64_t count, const Ids &stop, int64_t capacity) {
  Ids made;
  while (std::ssize(made) < count && std::ssize(ids) <= capacity) {
    int64_t sum = 7;
    for (int64_t id : ids)
      sum = (sum * 31 + id) % 97;
    made.push_back(sum);
    ids.push_back(sum);
    if (std::find(stop.begin(), stop.end(), sum) != stop.end())
      break;
  }
  return made;
}

TEST(Schedule, FewShapesAreUsedOnRequest) {
  EXPECT_EQ(roundedLength(1, 512), 1);
  EXPECT_EQ(roundedLength(3, 512), 4);
  EXPECT_EQ(roundedLength(33, 512), 64);
  EXPECT_EQ(roundedLength(65, 512), 128);
  EXPECT_EQ(roundedLength(129, 512), 192);
  EXPECT_EQ(roundedLength(129, 150), 150);
  for (int groups : {1, 2}) {
    constexpr int64_t slots = 11, capacity = 40;
    Schedule schedule({slots, capacity, 16}, groups, false, /*fewShapes=*/true);
    Caches caches({slots, capacity, 16});
    std::vector<Ids> prompts;
    for (int64_t i = 0; i < 30; ++i) {
      prompts.emplace_back(1 + i * 7 % 23, i);
      schedule.add(requestOf(prompts.back(), 1 + i * 5 % 13));
    }
    std::set<std::pair<int64_t, int64_t>> decoded;
    std::set<int64_t> lengths;
    while (std::optional<StepItem> item = schedule.next()) {
      caches.run(*item);
      lengths.insert(item->sequence);
      if (item->sequence == 1)
        decoded.insert({item->first, item->rows()});
      schedule.finish(*item, caches.sample(*item));
    }
    EXPECT_TRUE(schedule.isIdle());
    std::vector<Ids> made(prompts.size());
    for (const GenerationEvent &event : schedule.takeEvents())
      if (!event.finish)
        made[event.request].push_back(event.token);
    for (size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(made[i], expectedOf(prompts[i], 1 + int64_t(i) * 5 % 13, {}, capacity)) << i;
    for (int64_t length : lengths)
      EXPECT_EQ(length & (length - 1), 0) << length;
    for (auto [first, rows] : decoded)
      if (groups == 1 && first + rows < slots) {
        EXPECT_EQ(rows & (rows - 1), 0) << rows;
        EXPECT_EQ(first % rows, 0) << first;
      }
    EXPECT_LE(decoded.size(), 2u * slots);
  }
}

TEST(Schedule, PromptsAreProcessedInChunks) {
  Schedule schedule({1, 20, 3}, 1, false);
  schedule.add(requestOf({1, 2, 3, 4, 5, 6, 7}, 2));
  std::vector<Ids> ids;
  std::vector<int64_t> lengths, sampled;
  while (auto item = schedule.next()) {
    ids.push_back(item->ids);
    lengths.push_back(item->lengths[0]);
    sampled.push_back(std::ssize(item->sampled));
    EXPECT_FALSE(schedule.next()) << "its tokens are pending";
    std::vector<SampledToken> tokens(item->sampled.size(), {42, false});
    schedule.finish(*item, tokens);
  }
  EXPECT_EQ(ids, (std::vector<Ids>{{1, 2, 3}, {4, 5, 6}, {7}, {42}}));
  EXPECT_EQ(lengths, (Ids{0, 3, 6, 7}));
  EXPECT_EQ(sampled, (Ids{0, 0, 1, 1}));
  auto events = schedule.takeEvents();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].index, 1);
  EXPECT_EQ(events[2].finish, Finish::Length);
  EXPECT_TRUE(schedule.isIdle());
}

TEST(Schedule, EndsByStopIdsAndByCapacity) {
  for (int64_t capacity : {3, 4, 5}) {
    Schedule schedule({1, capacity, 8}, 1, false);
    schedule.add(requestOf({1, 2, 3}, 100));
    int64_t tokens = 0, maximum = 0;
    while (auto item = schedule.next()) {
      maximum = item->lengths[0] + item->counts[0];
      schedule.finish(*item, std::vector<SampledToken>{{tokens++, false}});
    }
    EXPECT_EQ(maximum, capacity);
    EXPECT_EQ(tokens, capacity - 3 + 1); // the last token needs no cache entry
    EXPECT_EQ(schedule.takeEvents().back().finish, Finish::Length);
  }
  Schedule schedule({1, 20, 8}, 1, false);
  GenerationRequest request = requestOf({1}, 10);
  request.stopIds = {5, 6};
  schedule.add(request);
  for (int64_t token : {1, 6})
    schedule.finish(*schedule.next(), std::vector<SampledToken>{{token, false}});
  auto events = schedule.takeEvents();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].token, 6);
  EXPECT_EQ(events[2].finish, Finish::Stop);
  EXPECT_FALSE(schedule.next());
}

TEST(Schedule, ZeroNewTokensAreValid) {
  Schedule schedule({1, 20, 2}, 1, false);
  schedule.add(requestOf({1, 2, 3}, 0));
  int steps = 0;
  while (auto item = schedule.next()) {
    EXPECT_TRUE(item->sampled.empty());
    schedule.finish(*item, {});
    ++steps;
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(schedule.takeEvents().at(0).finish, Finish::Length);
}

TEST(Schedule, NaNEndsOnlyItsRequest) {
  Schedule schedule({2, 20, 8}, 1, true);
  schedule.add(requestOf({1, 2}));
  schedule.add(requestOf({3}));
  auto item = schedule.next();
  ASSERT_EQ(item->sampled, (Ids{0, 1}));
  schedule.finish(*item, std::vector<SampledToken>{{17, true}, {5, false}});
  auto events = schedule.takeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].request, 0u);
  EXPECT_EQ(events[0].finish, Finish::Error);
  EXPECT_EQ(events[0].message, "the model's logits are NaN after 2 tokens, first for token 17");
  EXPECT_EQ(events[1].token, 5);
  EXPECT_EQ(schedule.next()->counts, (Ids{0, 1}));
}

TEST(Schedule, Cancels) {
  Schedule schedule({2, 20, 8}, 1, false);
  for (int i = 0; i < 3; ++i)
    schedule.add(requestOf({1, 2}));
  auto item = schedule.next();
  schedule.cancel(2); // waiting
  schedule.cancel(0); // a request of the running item
  schedule.cancel(9); // unknown
  EXPECT_EQ(schedule.takeEvents().size(), 1u);
  schedule.finish(*item, std::vector<SampledToken>{{1, false}});
  auto events = schedule.takeEvents();
  ASSERT_EQ(events.size(), 1u) << "no token event of a cancelled request";
  EXPECT_EQ(events[0].request, 0u);
  EXPECT_EQ(events[0].finish, Finish::Cancelled);
  schedule.cancel(1); // between steps
  EXPECT_EQ(schedule.takeEvents().at(0).request, 1u);
  EXPECT_TRUE(schedule.isIdle());
  EXPECT_FALSE(schedule.next());
}

/// Cancels a request whose slot is not in the running item of its group.
TEST(Schedule, CancelsASlotOutsideTheItem) {
  Schedule schedule({2, 20, 8}, 1, false);
  schedule.add(requestOf({1}));
  schedule.add(requestOf({2}));
  auto item = schedule.next();
  ASSERT_EQ(item->rows(), 1);
  schedule.cancel(1);
  schedule.finish(*item, std::vector<SampledToken>{{1, false}});
  auto events = schedule.takeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].request, 1u);
  EXPECT_EQ(events[1].finish, Finish::Cancelled);
}

TEST(Schedule, RunningSlotsAlternateWithPrompts) {
  Schedule schedule({2, 100, 4}, 1, false);
  schedule.add(requestOf({1}, 50));
  schedule.finish(*schedule.next(), std::vector<SampledToken>{{1, false}});
  schedule.add(requestOf(Ids(40, 3), 1));
  int prompts = 0, others = 0;
  for (int i = 0; i < 20; ++i) {
    auto item = schedule.next();
    (item->first == 1 ? prompts : others)++;
    schedule.finish(*item, std::vector<SampledToken>(item->sampled.size(), {1, false}));
  }
  EXPECT_EQ(prompts, 10);
  EXPECT_EQ(others, 10);
}

TEST(Schedule, GroupsKeepAllStagesBusy) {
  Schedule schedule({4, 20, 8}, 2, false);
  EXPECT_EQ(schedule.numGroups(), 2);
  for (int i = 0; i < 4; ++i)
    schedule.add(requestOf({1}, 3));
  auto first = schedule.next(), second = schedule.next();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->group, second->group);
  EXPECT_FALSE(schedule.next()) << "both groups wait for tokens";
  schedule.finish(*first, std::vector<SampledToken>{{1, false}});
  auto third = schedule.next();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->group, first->group);
  EXPECT_EQ(Schedule({3, 20, 8}, 8, false).numGroups(), 3);
}

/// Random requests of all kinds: each must get the same tokens as alone.
TEST(Schedule, SequencesAreIndependent) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](int64_t from, int64_t count) {
      return from + static_cast<int64_t>(random()) % count;
    };
    GenerationLimits limits{draw(1, 5), draw(8, 20), draw(1, 6)};
    bool whole = random() % 3 == 0;
    Schedule schedule(limits, whole ? 1 : 1 + static_cast<int>(random() % 3), whole);
    Caches caches(limits);
    std::vector<GenerationRequest> requests;
    std::set<uint64_t> cancelled;
    std::map<uint64_t, Ids> made;
    std::map<uint64_t, Finish> finished;
    std::deque<StepItem> out;
    while (requests.size() < 25 || !schedule.isIdle() || !out.empty()) {
      if (requests.size() < 25 && random() % 3 == 0) {
        Ids ids(1 + random() % static_cast<uint64_t>(limits.capacity));
        for (int64_t &id : ids)
          id = draw(0, 97);
        requests.push_back(requestOf(ids, draw(1, 12)));
        requests.back().stopIds = {draw(0, 97), 3};
        EXPECT_EQ(schedule.add(requests.back()), requests.size() - 1);
      }
      if (!requests.empty() && random() % 40 == 0) {
        uint64_t number = random() % requests.size();
        if (!finished.contains(number))
          cancelled.insert(number);
        schedule.cancel(number);
      }
      auto item = out.size() < 3 ? schedule.next() : std::nullopt;
      if (item) {
        if (whole)
          EXPECT_EQ(item->rows(), limits.slots);
        caches.run(*item);
        out.push_back(*item);
      } else if (!out.empty()) {
        schedule.finish(out.front(), caches.sample(out.front()));
        out.pop_front();
      }
      for (const GenerationEvent &event : schedule.takeEvents()) {
        ASSERT_FALSE(finished.contains(event.request)) << "an event after the end";
        if (event.finish) {
          finished[event.request] = *event.finish;
        } else {
          EXPECT_EQ(event.index, std::ssize(made[event.request]));
          made[event.request].push_back(event.token);
        }
      }
    }
    for (uint64_t number = 0; number < requests.size(); ++number) {
      const GenerationRequest &request = requests[number];
      Ids wanted = expectedOf(request.ids, request.maxNewTokens, request.stopIds, limits.capacity);
      if (finished.at(number) == Finish::Cancelled) {
        EXPECT_TRUE(cancelled.contains(number));
        ASSERT_LE(made[number].size(), wanted.size());
        wanted.resize(made[number].size());
      } else {
        bool stopped = std::find(request.stopIds.begin(), request.stopIds.end(), wanted.back()) !=
                       request.stopIds.end();
        EXPECT_EQ(finished.at(number), stopped ? Finish::Stop : Finish::Length);
      }
      EXPECT_EQ(made[number], wanted) << "request " << number << ", seed " << seed;
    }
  }
}

/// A device that runs the steps that follow an item before the host has its tokens: sequences go on
/// after stop ids, and rows of ended requests too.
class AheadDevice {
public:
  explicit AheadDevice(Caches &caches) : caches(caches) {}
  void begin(const StepItem &item) { next = item, tokens.clear(), run(); }
  /// Runs the step that follows the last one that ran.
  void run() {
    caches.run(next);
    tokens.push_back(caches.sample(next));
    for (size_t i = 0; i < next.sampled.size(); ++i) {
      auto row = static_cast<size_t>(next.sampled[i]);
      next.ids[row] = tokens.back()[i].token;
      ++next.lengths[row];
    }
  }
  /// Returns the tokens of the earliest step, of the rows of `item`.
  std::vector<SampledToken> take(const StepItem &item) {
    std::vector<SampledToken> ofItem;
    for (int64_t row : item.sampled) {
      auto at = std::find(next.sampled.begin(), next.sampled.end(), row) - next.sampled.begin();
      ofItem.push_back(tokens.front().at(static_cast<size_t>(at)));
    }
    tokens.pop_front();
    return ofItem;
  }
  void drop() { tokens.clear(); }
  int64_t inFlight() const { return std::ssize(tokens); }
  /// Whether no row of the steps has ended.
  bool hasRowsOf(const StepItem &item) const { return item.sampled == next.sampled; }

private:
  Caches &caches;
  StepItem next;
  std::deque<std::vector<SampledToken>> tokens;
};

/// Random requests, with steps that run ahead of the schedule: tokens are the same as alone.
TEST(Schedule, StepsMayRunAhead) {
  int64_t followed = 0, dropped = 0, shrunk = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](int64_t from, int64_t count) {
      return from + static_cast<int64_t>(random()) % count;
    };
    GenerationLimits limits{draw(1, 5), draw(8, 20), draw(1, 6)};
    Schedule schedule(limits, 1, false, random() % 2);
    Caches caches(limits);
    AheadDevice device(caches);
    std::vector<GenerationRequest> requests;
    std::map<uint64_t, Ids> made;
    std::set<uint64_t> cancelled;
    std::optional<StepItem> last;
    while (requests.size() < 20 || !schedule.isIdle()) {
      if (requests.size() < 20 && random() % 12 == 0) {
        Ids ids(1 + random() % static_cast<uint64_t>(limits.capacity));
        for (int64_t &id : ids)
          id = draw(0, 97);
        requests.push_back(requestOf(ids, draw(1, 15)));
        if (random() % 2)
          requests.back().stopIds = {draw(0, 30), draw(30, 30), draw(60, 37), 3};
        schedule.add(requests.back());
      }
      if (!requests.empty() && random() % 60 == 0) {
        cancelled.insert(random() % requests.size());
        schedule.cancel(*cancelled.rbegin());
      }
      std::optional<StepItem> item;
      if (device.inFlight() > 0 && !(item = schedule.following(*last))) {
        dropped += device.inFlight();
        device.drop();
      }
      followed += item.has_value();
      shrunk += item && item->sampled.size() < last->sampled.size();
      if (!item && !(item = schedule.next()))
        continue;
      if (device.inFlight() == 0)
        device.begin(*item);
      if (item->sequence == 1)
        for (int64_t steps = std::min(draw(0, 6), schedule.stepsAfter(*item));
             device.inFlight() <= steps && device.hasRowsOf(*item);)
          device.run();
      schedule.finish(*item, device.take(*item));
      last = item;
      for (const GenerationEvent &event : schedule.takeEvents())
        if (!event.finish)
          made[event.request].push_back(event.token);
    }
    for (uint64_t number = 0; number < requests.size(); ++number) {
      const GenerationRequest &request = requests[number];
      Ids wanted = expectedOf(request.ids, request.maxNewTokens, request.stopIds, limits.capacity);
      if (cancelled.contains(number))
        wanted.resize(std::min(wanted.size(), made[number].size()));
      EXPECT_EQ(made[number], wanted) << "request " << number << ", seed " << seed;
    }
  }
  EXPECT_GT(followed, 1000);
  EXPECT_GT(dropped, 100);
  EXPECT_GT(shrunk, 40);
}

TEST(Schedule, StepsAheadEndBeforeTheScheduleDecides) {
  Schedule schedule({2, 12, 8}, 1, false);
  schedule.add(requestOf({1, 2, 3}, 5));
  schedule.finish(*schedule.next(), std::vector<SampledToken>{{1, false}});
  auto item = schedule.next();
  EXPECT_EQ(schedule.stepsAfter(*item), 3); // this is the second of five tokens
  EXPECT_FALSE(schedule.mayStop(*item));
  schedule.add(requestOf({1, 2, 3, 4, 5, 6}, 50));
  EXPECT_EQ(schedule.stepsAfter(*item), 0) << "a prompt waits for the free slot";
  schedule.finish(*item, std::vector<SampledToken>{{1, false}});
  item = schedule.next();
  EXPECT_EQ(item->first, 1);
  schedule.finish(*item, std::vector<SampledToken>{{1, false}});
  item = schedule.next();
  schedule.add(requestOf({1}, 50));
  EXPECT_EQ(item->sampled, (Ids{0, 1}));
  EXPECT_EQ(schedule.stepsAfter(*item), 2) << "no slot is free";
  schedule.finish(*item, std::vector<SampledToken>(2, {1, false}));
  item = schedule.following(*item);
  EXPECT_EQ(item->sampled, (Ids{0, 1}));
  EXPECT_FALSE(schedule.next()) << "its tokens are pending";
  schedule.finish(*item, std::vector<SampledToken>{{1, false}, {2, true}});
  item = schedule.following(*item);
  EXPECT_EQ(item->sampled, (Ids{0})) << "the other request has ended";
  EXPECT_EQ(item->rows(), 2);
  EXPECT_EQ(item->counts, (Ids{1, 0}));
  EXPECT_EQ(item->lengths, (Ids{6, 0}));
  schedule.finish(*item, std::vector<SampledToken>{{1, false}});
  EXPECT_FALSE(schedule.following(*item));
  EXPECT_TRUE(schedule.next()) << "the waiting prompt";
}

TEST(Schedule, SeenTokensAreDistinct) {
  Schedule schedule({1, 20, 8}, 1, false);
  schedule.add(requestOf({5, 6, 5}));
  schedule.finish(*schedule.next(), std::vector<SampledToken>{{6, false}});
  auto item = schedule.next();
  std::vector<SampledRow> rows = schedule.rowsOf(*item);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(Ids(rows[0].seen.begin(), rows[0].seen.end()), (Ids{5, 6}));
  EXPECT_EQ(rows[0].position, 4);
  schedule.finish(*item, std::vector<SampledToken>{{9, false}});
  item = schedule.next();
  rows = schedule.rowsOf(*item);
  EXPECT_EQ(Ids(rows[0].seen.begin(), rows[0].seen.end()), (Ids{5, 6, 9}));
}

} // namespace
