//===- HangDetectorTest.cpp - Tests of hang diagnosis ---------------------===//

#include "core/HangDetector.h"
#include <gtest/gtest.h>

using namespace tpc::rt;

namespace {

struct Ranks {
  std::vector<Heartbeat> beats;
  HangDetector detector{0, [this](int of) -> const Heartbeat & { return beats[of]; },
                        [](int of) { return "rank " + std::to_string(of); }};

  explicit Ranks(std::vector<Heartbeat> given) : beats(std::move(given)) {
    detector.ranks = static_cast<int>(beats.size());
  }
};

Heartbeat onDevice(const char *at, std::vector<int> awaited = {}) {
  return {.waits = true, .onDevice = true, .awaited = std::move(awaited), .at = at};
}
Heartbeat onHost(const char *at, std::vector<int> awaited) {
  return {.waits = true, .awaited = std::move(awaited), .at = at};
}
Heartbeat computing() { return {.awaited = {}, .at = "computing"}; }

} // namespace

TEST(HangDetector, ARankInTheSameOperationIsNotMissing) {
  Ranks ranks({onDevice("in all_reduce 7", {1, 2}), onDevice("in all_reduce 7", {0, 2}),
               onDevice("in all_reduce 6", {0, 1})});
  EXPECT_EQ(ranks.detector.awaited(0), std::vector<int>{2});
  EXPECT_EQ(ranks.detector.awaited(2), (std::vector<int>{0, 1}));
  EXPECT_EQ(ranks.detector.describeWait(0), "rank 0 in all_reduce 7 for rank 2");
}

TEST(HangDetector, ARankInALaterOperationIsNotMissing) {
  Ranks ranks({onDevice("in all_reduce 7", {1}), onDevice("in all_gather 6", {0})});
  ranks.beats[0].axes = ranks.beats[1].axes = 1;
  ranks.beats[0].number = 7;
  ranks.beats[1].number = 6;
  EXPECT_EQ(ranks.detector.describeWait(0), "rank 0 in all_reduce 7 for rank 1");
  EXPECT_EQ(ranks.detector.describeWait(1), "rank 1 in all_gather 6");
  EXPECT_EQ(ranks.detector.rankToReport(), 0);
  // Sequence numbers of different groups are not comparable.
  ranks.beats[0].axes = 2;
  EXPECT_EQ(ranks.detector.awaited(1), std::vector<int>{0});
}

TEST(HangDetector, NamesARankThatWaitsForAComputingRank) {
  // 0 waits for 1, 1 for 2, and 2 computes, on the host or on its device.
  for (const Heartbeat &last : {computing(), onDevice("computing on its device, in kernel 'k'")}) {
    Ranks ranks({onDevice("in receive 1", {1}), onDevice("in receive 2", {2}), last});
    EXPECT_EQ(ranks.detector.rankToReport(), 1);
    EXPECT_EQ(ranks.detector.describeWait(1), "rank 1 in receive 2 for rank 2");
  }
}

TEST(HangDetector, NamesARankThatWaitsForItsDevice) {
  Ranks ranks({onHost("in all_reduce", {1}), onHost("in all_reduce", {0}),
               onDevice("computing on its device, in kernel 'k'")});
  EXPECT_EQ(ranks.detector.rankToReport(), 2);
}

TEST(HangDetector, NamesTheFirstUnfinishedRankOfACycle) {
  Ranks ranks({Heartbeat{.waits = true, .left = true, .awaited = {}, .at = ""},
               onHost("in send", {2}), onHost("in send", {1})});
  EXPECT_EQ(ranks.detector.rankToReport(), 1);
}
