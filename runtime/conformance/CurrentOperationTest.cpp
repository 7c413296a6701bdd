//===- CurrentOperationTest.cpp - Concurrent reads of an operation --------===//

#include "core/CurrentOperation.h"
#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <string_view>
#include <thread>

using namespace tpc::rt;

TEST(CurrentOperation, ReadsConsistentState) {
  CurrentOperation activity;
  EXPECT_EQ(activity.read().last, nullptr);
  {
    activity.setNode("a");
    OperationScope doing(activity, "all_reduce", 1);
    // The node of the next operation; the current one keeps its node.
    activity.setNode("b");
    CurrentOperation::Snapshot seen = activity.read();
    EXPECT_STREQ(seen.what, "all_reduce");
    EXPECT_STREQ(seen.node, "a");
    EXPECT_EQ(seen.axes, 1u);
  }
  CurrentOperation::Snapshot seen = activity.read();
  EXPECT_EQ(seen.what, nullptr);
  EXPECT_STREQ(seen.last, "all_reduce");
  EXPECT_STREQ(seen.node, "a");
}

TEST(CurrentOperation, IsReadWhole) {
  CurrentOperation activity;
  std::atomic<bool> done{false};
  std::thread rank([&] {
    while (!done) {
      activity.setNode("a");
      {
        OperationScope doing(activity, "all_reduce", 1);
      }
      activity.setNode("b");
      {
        OperationScope doing(activity, "send", 2);
      }
      activity.setNode(nullptr);
      OperationScope doing(activity, "outputs", 0);
    }
  });
  int found[3] = {};
  // On a single core, waits until each thread has run.
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  auto isOver = [&] {
    return std::all_of(found, found + 3, [](int count) { return count > 100000; }) ||
           std::chrono::steady_clock::now() > end;
  };
  while (!HasFailure() && !isOver()) {
    CurrentOperation::Snapshot seen = activity.read();
    if (!seen.last)
      continue;
    ++found[seen.axes];
    std::string_view last = seen.last, node = seen.node ? seen.node : "";
    EXPECT_TRUE(seen.axes == 0   ? last == "outputs" && node.empty()
                : seen.axes == 1 ? last == "all_reduce" && node == "a"
                                 : last == "send" && node == "b")
        << last << " " << node << " " << seen.axes;
    EXPECT_TRUE(!seen.what || seen.what == last);
  }
  done = true;
  rank.join();
  EXPECT_GT(found[0], 0);
  EXPECT_GT(found[1], 0);
  EXPECT_GT(found[2], 0);
}
