//===- PipelineScheduleTest.cpp - Tests of pipeline schedules -------------===//

#include "tpc/Support/PipelineSchedule.h"

#include "gtest/gtest.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

using namespace tpc;

static ScheduleTable make(std::string_view policy, int64_t ranks, int64_t chunks, int64_t count) {
  std::string error;
  auto table = makeSchedule(policy, {ranks, chunks, count}, error);
  EXPECT_TRUE(table) << error;
  return table.value_or(ScheduleTable());
}

TEST(PipelineSchedule, EventsRoundTrip) {
  for (std::string text : {"F0.0", "B12.3", "W1.0", "SF2.1", "RF7.15"}) {
    auto event = ScheduleEvent::parse(text);
    ASSERT_TRUE(event) << text;
    EXPECT_EQ(event->str(), text);
  }
  for (std::string text : {"", "F", "F1", "F1.", "F.1", "X1.1", "F1.1x", "F-1.0", "F1.-1"})
    EXPECT_FALSE(ScheduleEvent::parse(text)) << text;
}

/// Prints an event in PyTorch's notation, where I is a backward of inputs alone.
static std::string print(const ScheduleEvent &event, bool hasWeights) {
  const char *phase = event.phase == SchedulePhase::Forward          ? "F"
                      : event.phase == SchedulePhase::WeightGradient ? "W"
                      : hasWeights                                   ? "I"
                                                                     : "B";
  return std::to_string(event.chunk) + phase + std::to_string(event.microBatch);
}

TEST(PipelineSchedule, TablesEqualThePublishedOnes) {
  std::string folder = __FILE__;
  folder.resize(folder.rfind('/'));
  std::ifstream file(folder + "/Inputs/schedules.txt");
  std::string line;
  int tables = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream title(line);
    std::string policy, pp, vpp, mb;
    title >> policy >> pp >> vpp >> mb;
    int64_t ranks = std::stoll(pp.substr(2));
    ScheduleTable table = make(policy, ranks, std::stoll(vpp.substr(3)), std::stoll(mb.substr(2)));
    ASSERT_EQ(int64_t(table.size()), ranks);
    for (const std::vector<ScheduleEvent> &events : table) {
      std::string expected, own;
      std::getline(file, expected);
      for (const ScheduleEvent &event : events)
        own += (own.empty() ? "" : " ") + print(event, policy.starts_with("zb"));
      EXPECT_EQ(own, expected) << line;
    }
    ++tables;
  }
  EXPECT_EQ(tables, 30);
}

/// Whether all events can be computed in their orders: computes one event at a time.
static bool isComputable(const ScheduleTable &table, int64_t chunks) {
  std::set<std::string> done;
  auto isDone = [&](SchedulePhase phase, int64_t chunk, int64_t i) {
    return done.contains(ScheduleEvent{phase, chunk, i}.str());
  };
  auto isReady = [&](const ScheduleEvent &event) {
    auto [phase, chunk, i] = event;
    if (phase == SchedulePhase::Forward)
      return chunk == 0 || isDone(phase, chunk - 1, i);
    if (phase == SchedulePhase::WeightGradient)
      return isDone(SchedulePhase::Backward, chunk, i);
    return isDone(SchedulePhase::Forward, chunk, i) &&
           (chunk + 1 == chunks || isDone(phase, chunk + 1, i));
  };
  std::vector<size_t> next(table.size());
  for (size_t rank = 0; rank < table.size();) {
    if (next[rank] < table[rank].size() && isReady(table[rank][next[rank]])) {
      done.insert(table[rank][next[rank]++].str());
      rank = 0;
    } else {
      ++rank;
    }
  }
  for (size_t rank = 0; rank < table.size(); ++rank)
    if (next[rank] < table[rank].size())
      return false;
  return true;
}

// Edits of each event: dropped, doubled, moved to another rank, and exchanged with the next one. An
// exchange is valid if all events remain computable and the bound in flight is not exceeded.
TEST(PipelineSchedule, WrongTablesAreFound) {
  int wrong = 0, valid = 0, overBound = 0;
  for (const SchedulePolicy &policy : getSchedulePolicies())
    for (int64_t ranks : {2, 4}) {
      int64_t chunks = policy.chunks == SchedulePolicy::Chunks::One ? 1 : 2;
      PipelineShape shape = {ranks, chunks, 2 * ranks};
      const ScheduleTable table = make(policy.name, ranks, chunks, shape.microBatches);
      auto check = [&](auto edit) {
        ScheduleTable edited = table;
        edit(edited);
        return checkSchedule(policy, shape, edited);
      };
      for (int64_t rank = 0; rank < ranks; ++rank)
        for (size_t i = 0; i < table[rank].size(); ++i) {
          auto drop = [&](ScheduleTable &t) { t[rank].erase(t[rank].begin() + i); };
          auto append = [&](ScheduleTable &t, int64_t to) { t[to].push_back(table[rank][i]); };
          EXPECT_NE(check(drop), "");
          EXPECT_NE(check([&](ScheduleTable &t) { append(t, rank); }), "");
          EXPECT_NE(check([&](ScheduleTable &t) {
                      drop(t);
                      append(t, (rank + 1) % ranks);
                    }),
                    "");
          wrong += 3;
          if (i + 1 == table[rank].size())
            continue;
          ScheduleTable edited = table;
          std::swap(edited[rank][i], edited[rank][i + 1]);
          std::string why = checkSchedule(policy, shape, edited);
          bool isOverBound = why.find("in flight") != std::string::npos;
          EXPECT_EQ(why.empty() || isOverBound, isComputable(edited, shape.chunks())) << why;
          overBound += isOverBound;
          ++(why.empty() ? valid : wrong);
        }
    }
  EXPECT_GT(wrong, 1000);
  EXPECT_GT(valid, 100);
  EXPECT_GT(overBound, 10);
}

static int64_t (*trueBound)(const PipelineShape &, int64_t);
static int64_t tighterOn;

TEST(PipelineSchedule, BoundsInFlightAreReached) {
  for (const SchedulePolicy &policy : getSchedulePolicies())
    for (int64_t ranks : {2, 4, 8}) {
      if (!policy.isTraining)
        continue;
      PipelineShape shape = {ranks, policy.chunks == SchedulePolicy::Chunks::One ? 1 : 2,
                             2 * ranks};
      ScheduleTable table = make(policy.name, ranks, shape.chunksPerRank, shape.microBatches);
      SchedulePolicy tighter = policy;
      trueBound = policy.getMaxInFlight;
      tighter.getMaxInFlight = [](const PipelineShape &shape, int64_t rank) {
        return trueBound(shape, rank) - (rank == tighterOn);
      };
      for (tighterOn = 0; tighterOn < ranks; ++tighterOn)
        EXPECT_NE(checkSchedule(tighter, shape, table), "") << policy.name << " " << tighterOn;
      // All backward events last: as many in flight as micro-batches.
      if (policy.name == "1f1b") {
        EXPECT_NE(checkSchedule(policy, shape, make("gpipe-training", ranks, 1, 2 * ranks)), "");
      }
    }
}

TEST(PipelineSchedule, IdleSlotsOfForwardPolicies) {
  for (int64_t ranks : {2, 4, 8})
    for (int64_t chunks : {1, 2, 4})
      for (int64_t count : {ranks, 2 * ranks, 4 * ranks}) {
        ScheduleSlots slots = countSlots(make("interleaved", ranks, chunks, count), ranks * chunks);
        EXPECT_EQ(slots.busy, ranks * chunks * count);
        // Each rank is idle for ranks - 1 slots, and computes in chunks * count.
        EXPECT_EQ(slots.idle, ranks * (ranks - 1));
      }
}

/// Whether all ranks end if a send returns only when its receive is reached.
static bool terminates(const ScheduleTable &table) {
  std::vector<size_t> next(table.size());
  auto at = [&](size_t rank) -> const ScheduleEvent * {
    return next[rank] < table[rank].size() ? &table[rank][next[rank]] : nullptr;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t rank = 0; rank < table.size(); ++rank) {
      const ScheduleEvent *event = at(rank);
      if (!event || event->phase == SchedulePhase::ReceiveForward)
        continue;
      if (event->phase == SchedulePhase::SendForward) {
        bool taken = false;
        for (size_t other = 0; other < table.size() && !taken; ++other)
          if (const ScheduleEvent *recv = at(other);
              recv && *recv == ScheduleEvent{SchedulePhase::ReceiveForward, event->chunk + 1,
                                             event->microBatch}) {
            ++next[other];
            taken = true;
          }
        if (!taken)
          continue;
      }
      ++next[rank];
      progress = true;
    }
  }
  for (size_t rank = 0; rank < table.size(); ++rank)
    if (at(rank))
      return false;
  return true;
}

TEST(PipelineSchedule, MessagesEndWithoutBuffers) {
  for (int64_t ranks : {2, 3, 4, 8})
    for (int64_t chunks : {1, 2, 3, 4})
      for (int64_t count : {1, 2, 3, 4, 7, 8, 16}) {
        ScheduleTable table =
            addMessages(make("interleaved", ranks, chunks, count), ranks * chunks);
        EXPECT_TRUE(terminates(table)) << ranks << " " << chunks << " " << count;
        std::set<std::string> seen;
        for (const auto &events : table)
          for (const ScheduleEvent &event : events)
            EXPECT_TRUE(seen.insert(event.str()).second);
        EXPECT_EQ(int64_t(seen.size()), count * (3 * ranks * chunks - 2));
      }
}

TEST(PipelineSchedule, Errors) {
  std::string error;
  EXPECT_FALSE(makeSchedule("gpipe", {2, 2, 4}, error));
  EXPECT_NE(error.find("vpp2"), std::string::npos) << error;
  EXPECT_FALSE(makeSchedule("interleaved-1f1b", {2, 2, 7}, error));
  EXPECT_NE(error.find("write mb6 or mb8"), std::string::npos) << error;
  EXPECT_FALSE(makeSchedule("zb-v", {2, 3, 4}, error));
  EXPECT_NE(error.find("write vpp2"), std::string::npos) << error;
  EXPECT_FALSE(makeSchedule("dual", {2, 1, 4}, error));
  EXPECT_NE(error.find("use one of gpipe, interleaved"), std::string::npos) << error;
}
