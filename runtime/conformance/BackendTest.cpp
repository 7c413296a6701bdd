//===- BackendTest.cpp - Tests of device-to-device communication ----------===//

#include "LateBackend.h"
#include "LateDevice.h"
#include "OnDevice.h"
#include "core/Transport.h"
#include "core/World.h"
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

class Linked : public testing::Test {
protected:
  void SetUp() override { selectDevices(linkedLateDevices()); }
  void TearDown() override { breakLateBackend(""); }

  static void allReduce(tpc_context &ctx, uint32_t axes) {
    OnDevice<float> data(ctx, {1});
    tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, data.data(), data.data(), 1);
  }
};

void expectIn(const std::string &text, const std::string &all) {
  EXPECT_NE(all.find(text), std::string::npos) << all;
}

} // namespace

TEST_F(Linked, TheHostTransportDoesOtherOperations) {
  auto world = World::threads(Grid({{"tp", 2}}), 1);
  auto error = world->run([](tpc_context &ctx) {
    EXPECT_TRUE(ctx.transport->isOnDevice());
    EXPECT_TRUE(ctx.transport->sharesMemory());
    EXPECT_STREQ(ctx.transport->name(), "late links");
    ctx.transport->barrier(ctx);
    allReduce(ctx, 1);
  });
  EXPECT_FALSE(error) << *error;
}

TEST_F(Linked, AFailingRankWakesRanksInDeviceWaits) {
  auto world = World::threads(Grid({{"tp", 3}}), 1);
  auto error = world->run([](tpc_context &ctx) {
    if (ctx.rank == 1)
      fail(ctx, "enough");
    allReduce(ctx, 1);
  });
  EXPECT_EQ(error, "rank 1: enough");
}

TEST_F(Linked, ALateRankIsNamed) {
  auto world = World::threads(Grid({{"tp", 2}, {"pp", 2}}), 1, /*timeout=*/0.5);
  auto error = world->run([](tpc_context &ctx) {
    allReduce(ctx, 1);
    // Rank 3 skips an all-reduce and waits for a message that is never sent.
    if (ctx.rank != 3)
      return allReduce(ctx, 1);
    OnDevice<float> data(ctx, 1);
    tpc_recv(&ctx, 1, TPC_F32, data.data(), 1, 0);
  });
  ASSERT_TRUE(error);
  // The count includes operations of the warm-up.
  expectIn("has waited for 0.5 s (--timeout=0.5)", *error);
  expectIn("rank 2 (tp 0, pp 1) in all_reduce 7 over 'tp' for rank 3 (tp 1, pp 1)", *error);
  expectIn("rank 3 (tp 1, pp 1) in receive 1 over 'pp' for rank 1 (tp 1, pp 0)", *error);
}

TEST_F(Linked, ABrokenBackendEndsTheRun) {
  auto world = World::threads(Grid({{"tp", 2}}), 1);
  auto error = world->run([](tpc_context &ctx) {
    if (ctx.rank == 0)
      return allReduce(ctx, 1);
    breakLateBackend("the cable was cut");
    // The rank neither communicates nor ends: only the watchdog can report the error.
    while (!ctx.world.failed())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  ASSERT_TRUE(error);
  expectIn(
      "late links over 'tp' (ranks 0, 1): the cable was cut, at or after all_reduce 6 over 'tp'",
      *error);
}

TEST_F(Linked, MismatchingCallsAreAnError) {
  auto world = World::threads(Grid({{"tp", 2}}), 1);
  auto error = world->run([](tpc_context &ctx) {
    OnDevice<float> data(ctx, {1, 2});
    tpc_all_reduce(&ctx, 1, TPC_F32, TPC_SUM, data.data(), data.data(), 1 + ctx.rank);
  });
  ASSERT_TRUE(error);
  expectIn("all_reduce 6 over 'tp' failed: the members of a group make different calls", *error);
}
