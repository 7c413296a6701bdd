//===- SimulatorTest.cpp - Properties of simulated steps ------------------===//

#include "tpc/Cost/Simulator.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace tpc;

namespace {

SimulationProblem makeProblem(size_t stages, size_t microBatches, double work, double message) {
  SimulationProblem problem;
  problem.schedule = makeForwardSchedule(std::vector<int64_t>(stages, int64_t(microBatches)));
  problem.work.assign(stages, std::vector<double>(microBatches, work));
  problem.message.assign(stages, std::vector<double>(microBatches, message));
  problem.prologue.assign(stages, 0);
  return problem;
}

/// A problem with random times, and with shared cores or several chunks for each class.
SimulationProblem makeRandomProblem(unsigned seed) {
  std::mt19937 random(seed);
  size_t classes = 1 + random() % 5, chunksOfClass = 1 + random() % 3;
  size_t chunks = classes * chunksOfClass, microBatches = 1 + random() % 9;
  SimulationProblem problem = makeProblem(chunks, microBatches, 0, 0);
  auto draw = [&] { return random() % 4 == 0 ? 0 : double(random() % 1000) / 64; };
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    problem.prologue[chunk] = draw();
    std::vector<double> share;
    for (size_t i = 0; i < microBatches; ++i) {
      problem.work[chunk][i] = draw();
      problem.message[chunk][i] = draw();
      share.push_back(double(random() % 5) / 4);
    }
    problem.coreShare.push_back(share);
  }
  // Class c has the chunks c, c + classes, …, one after another for each micro-batch.
  if (chunksOfClass > 1) {
    auto single = problem.schedule;
    problem.schedule.assign(classes, {});
    for (size_t chunk = 0; chunk < chunks; ++chunk)
      for (const ScheduledRun &run : single[chunk])
        problem.schedule[chunk % classes].push_back(run);
  }
  if (random() % 2) {
    problem.coresOfClass = double(1 + random() % 3);
    problem.cores = double(1 + random() % 4);
  }
  return problem;
}

TEST(Simulator, IsTheFormulaForEqualStages) {
  for (size_t stages : {1, 2, 4})
    for (size_t microBatches : {1, 4, 16}) {
      Simulation step = simulate(makeProblem(stages, microBatches, 2.0, 0.5));
      EXPECT_DOUBLE_EQ(step.seconds,
                       2.0 * double(stages + microBatches - 1) + 0.5 * double(stages - 1));
    }
  // A link that is slower than the stages carries one message at a time.
  EXPECT_DOUBLE_EQ(simulate(makeProblem(2, 4, 1.0, 3.0)).seconds, 1 + 4 * 3 + 1);
}

TEST(Simulator, BubbleVanishesWithMicroBatches) {
  double last = 1;
  for (size_t microBatches : {1, 2, 4, 8, 64, 512}) {
    // Four stages share the same work.
    double bubble =
        1 - 1 / simulate(makeProblem(4, microBatches, 1.0 / double(microBatches), 0)).seconds;
    EXPECT_LT(bubble, last);
    EXPECT_NEAR(bubble, 3.0 / double(microBatches + 3), 1e-9);
    last = bubble;
  }
}

TEST(Simulator, InterleavedChunksHaveASmallerBubble) {
  // Two classes with one chunk of work 2, or with two chunks of work 1.
  SimulationProblem interleaved = makeProblem(4, 4, 1, 0);
  interleaved.schedule.assign(2, {});
  for (int32_t group = 0; group < 4; group += 2)
    for (int32_t round = 0; round < 2; ++round)
      for (int32_t i = group; i < group + 2; ++i)
        for (int32_t one = 0; one < 2; ++one)
          interleaved.schedule[size_t(one)].push_back({2 * round + one, i});
  EXPECT_DOUBLE_EQ(simulate(makeProblem(2, 4, 2, 0)).seconds, 10);
  EXPECT_DOUBLE_EQ(simulate(interleaved).seconds, 9);
}

TEST(Simulator, SharedCoresSlowDownRunsButNotCollectives) {
  SimulationProblem problem = makeProblem(2, 2, 4, 0);
  problem.coresOfClass = problem.cores = 1;
  // Both classes run from 4 on, at half the speed, until the first has ended at 12.
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 4 + 8 + 4);
  problem.coreShare.assign(2, std::vector<double>(2, 0.5));
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 4 + 6 + 4);
  problem.cores = 2;
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 12);
}

TEST(Simulator, PrologueWaitsForNoMessage) {
  SimulationProblem problem = makeProblem(2, 1, 3, 1);
  problem.prologue = {0, 2};
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 3 + 1 + 3);
  problem.prologue[1] = 7;
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 10);
}

TEST(Simulator, AScheduleThatWaitsForItselfNeverEnds) {
  SimulationProblem problem = makeProblem(2, 1, 1, 0);
  problem.schedule = {{{1, 0}, {0, 0}}};
  EXPECT_TRUE(std::isinf(simulate(problem).seconds));
}

TEST(Simulator, PropertiesOfRandomSchedules) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SimulationProblem problem = makeRandomProblem(seed);
    Simulation step = simulate(problem);
    ASSERT_TRUE(std::isfinite(step.seconds)) << seed;
    double tolerance = 1e-9 * (1 + step.seconds);
    // The critical path is a chain of touching events from 0 to the end of the step.
    double at = 0, path = 0;
    for (int32_t index : step.criticalPath) {
      const SimulatedEvent &event = step.events[size_t(index)];
      EXPECT_EQ(event.begin, at) << seed;
      at = event.end;
      path += event.end - event.begin;
    }
    EXPECT_EQ(at, step.seconds) << seed;
    EXPECT_NEAR(path, step.seconds, tolerance) << seed;
    // Runs of a class, and messages of a link, do not overlap. Busy and idle time are the step.
    std::map<std::pair<bool, int32_t>, double> lastEnd, busy;
    size_t runs = 0;
    for (const SimulatedEvent &event : step.events) {
      auto resource =
          std::make_pair(event.isMessage, event.isMessage ? event.chunk : event.rankClass);
      EXPECT_GE(event.begin, lastEnd[resource]) << seed;
      EXPECT_LE(event.end, step.seconds) << seed;
      if (event.after >= 0)
        EXPECT_EQ(step.events[size_t(event.after)].end, event.begin) << seed;
      else
        EXPECT_EQ(event.begin, 0) << seed;
      lastEnd[resource] = event.end;
      busy[resource] += event.end - event.begin;
      runs += !event.isMessage;
    }
    size_t scheduled = 0;
    for (size_t i = 0; i < problem.schedule.size(); ++i) {
      scheduled += problem.schedule[i].size();
      EXPECT_NEAR(step.busy[i], (busy[{false, int32_t(i)}]), tolerance) << seed;
    }
    EXPECT_EQ(runs, scheduled) << seed;
    for (const auto &[resource, seconds] : busy)
      EXPECT_LE(seconds, step.seconds + tolerance) << seed;
    // No run is faster than without sharing, and more cores never take longer.
    for (const SimulatedEvent &event : step.events)
      if (!event.isMessage && event.microBatch >= 0)
        EXPECT_GE(event.end - event.begin,
                  problem.work[size_t(event.chunk)][size_t(event.microBatch)] - tolerance);
    problem.cores = 0;
    EXPECT_LE(simulate(problem).seconds, step.seconds + tolerance) << seed;
  }
}

} // namespace
