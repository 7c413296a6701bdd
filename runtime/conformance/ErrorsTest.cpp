//===- ErrorsTest.cpp - Error propagation between ranks -------------------===//

#include "Reference.h"
#include "core/World.h"
#include "tpc/async.h"
#include <chrono>
#include <exception>
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

using Fn = std::function<void(tpc_context &)>;

/// Returns the error of a run, which must end; the test runner ends one that does not.
std::string errorOf(const Grid &grid, const Fn &fn) {
  std::optional<std::string> error = World::threads(grid, 1)->run(fn);
  return error ? *error : "no error";
}

std::string errorOf(int ranks, const Fn &fn) { return errorOf(Grid({{"tp", ranks}}), fn); }

void allReduce(tpc_context &ctx, int64_t count) {
  std::vector<float> data(count, 1.0f);
  tpc_all_reduce(&ctx, ctx.grid.allAxes(), TPC_F32, TPC_SUM, data.data(), data.data(), count);
}

} // namespace

TEST(Errors, WakesRanksInCollectives) {
  for (int ranks : {2, 3, 8, 32})
    for (int64_t count : {5, 100000})
      for (int failing : {0, ranks - 1})
        EXPECT_EQ(errorOf(ranks,
                          [&](tpc_context &ctx) {
                            allReduce(ctx, count);
                            if (ctx.rank == failing) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(5));
                              fail(ctx, "out of luck");
                            }
                            allReduce(ctx, count);
                            ADD_FAILURE()
                                << "a rank continues after the failure of rank " << failing;
                          }),
                  "rank " + std::to_string(failing) + ": out of luck");
}

TEST(Errors, WakesSendersAndReceivers) {
  // 0 sends to 1, which fails; 2 receives from 1.
  EXPECT_EQ(errorOf(3,
                    [&](tpc_context &ctx) {
                      std::vector<float> data(50000);
                      if (ctx.rank == 0)
                        for (;;)
                          tpc_send(&ctx, 0, TPC_F32, data.data(), data.size(), 1);
                      if (ctx.rank == 2)
                        tpc_recv(&ctx, 0, TPC_F32, data.data(), data.size(), 1);
                      std::this_thread::sleep_for(std::chrono::milliseconds(5));
                      fail(ctx, "no");
                    }),
            "rank 1: no");
}

TEST(Errors, ReachesComputingRanksAtTheNextCall) {
  EXPECT_EQ(errorOf(4,
                    [&](tpc_context &ctx) {
                      if (ctx.rank == 3)
                        fail(ctx, "early");
                      std::this_thread::sleep_for(std::chrono::milliseconds(20));
                      allReduce(ctx, 3);
                    }),
            "rank 3: early");
}

TEST(Errors, OnlyTheFirstIsKept) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::string error = errorOf(8, [&](tpc_context &ctx) { fail(ctx, "all of us"); });
    EXPECT_TRUE(error.ends_with(": all of us") && error.starts_with("rank ")) << error;
  }
}

TEST(Errors, FailsAtAnyMoment) {
  // One rank fails at a random point of a mixture of collectives of several groups. Sanitizers
  // detect reads of freed buffers by other ranks.
  Grid grid({{"tp", 2}, {"dp", 2}});
  for (uint64_t repeat = 0; repeat < 60; ++repeat)
    EXPECT_EQ(errorOf(grid,
                      [&](tpc_context &ctx) {
                        for (uint64_t step = 0;; ++step) {
                          if (ctx.rank == int(mix(repeat) % 4) && step == mix(repeat + 99) % 40)
                            fail(ctx, "now");
                          std::vector<float> data(mix(repeat * 1000 + step) % 40000);
                          uint32_t axes = mix(step) % 4;
                          tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, data.data(), data.data(),
                                         data.size());
                        }
                      }),
              "rank " + std::to_string(mix(repeat) % 4) + ": now");
}

TEST(Errors, FailsWithOperationsInFlight) {
  // The buffers of a rank are freed while others finish the operations.
  Grid grid({{"tp", 3}});
  for (uint64_t repeat = 0; repeat < 60; ++repeat)
    EXPECT_EQ(errorOf(grid,
                      [&](tpc_context &ctx) {
                        for (uint64_t step = 0;; ++step) {
                          std::vector<float> data[2];
                          int32_t tokens[2];
                          for (int i : {0, 1}) {
                            data[i].resize(mix(repeat * 1000 + 2 * step + i) % 90000);
                            tokens[i] =
                                tpc_all_reduce_start(&ctx, 1, TPC_F32, TPC_SUM, data[i].data(),
                                                     data[i].data(), data[i].size());
                          }
                          if (ctx.rank == int(mix(repeat) % 3) && step == mix(repeat + 99) % 20)
                            fail(ctx, "now");
                          for (int i : {0, 1})
                            tpc_wait(&ctx, tokens[i]);
                        }
                      }),
              "rank " + std::to_string(mix(repeat) % 3) + ": now");
}

TEST(Errors, ExceptionsAreErrorsOfTheRank) {
  EXPECT_EQ(errorOf(3,
                    [&](tpc_context &ctx) {
                      if (ctx.rank == 1)
                        throw std::runtime_error("cannot read the file");
                      allReduce(ctx, 3);
                    }),
            "rank 1: cannot read the file");
  EXPECT_EQ(errorOf(2,
                    [&](tpc_context &ctx) {
                      if (ctx.rank == 0)
                        throw std::bad_alloc();
                      allReduce(ctx, 3);
                    }),
            "rank 0: out of memory");
}

TEST(Errors, NamesARankThatEndsEarly) {
  for (int64_t count : {3, 50000})
    EXPECT_TRUE(errorOf(4, [&](tpc_context &ctx) {
                  if (ctx.rank != 2)
                    allReduce(ctx, count);
                }).ends_with("waits in a collective for rank 2, which has ended"));
  EXPECT_EQ(errorOf(2,
                    [&](tpc_context &ctx) {
                      float data = 0;
                      if (ctx.rank == 1)
                        tpc_recv(&ctx, 0, TPC_F32, &data, 1, 0);
                    }),
            "rank 1: waits in a receive for rank 0, which has ended");
  EXPECT_EQ(errorOf(2,
                    [&](tpc_context &ctx) {
                      float data = 0;
                      for (int i = 0; ctx.rank == 0 && i < 5; ++i)
                        tpc_send(&ctx, 0, TPC_F32, &data, 1, 1);
                    }),
            "rank 0: waits in a send for rank 1, which has ended");
}

TEST(Errors, MessagesOfDifferentSizes) {
  for (bool early : {false, true})
    EXPECT_EQ(errorOf(2,
                      [&](tpc_context &ctx) {
                        float data[8] = {};
                        if ((ctx.rank == 0) != early)
                          std::this_thread::sleep_for(std::chrono::milliseconds(10));
                        if (ctx.rank == 0)
                          tpc_send(&ctx, 0, TPC_F32, data, 5, 1);
                        else
                          tpc_recv(&ctx, 0, TPC_F32, data, 7, 0);
                      }),
              "rank 1: rank 0 sends 20 bytes where 28 are expected");
}

TEST(Errors, BadArgumentsAreReported) {
  Grid grid({{"tp", 2}, {"pp", 2}});
  float x[16] = {}, y[16] = {};
  auto messageOf = [&](const Fn &fn) {
    // Every rank has the same error; any of them may be the first to report it.
    std::string error = errorOf(grid, fn);
    return error.substr(error.find(": ") + 2);
  };
  EXPECT_EQ(
      messageOf([&](tpc_context &c) { tpc_all_reduce(&c, 1, TPC_I8, TPC_SUM, x, y, 4); }),
      "all_reduce over 'tp': cannot reduce elements of type i8 by reduction 0 (sum, max and min "
      "of floats, i32 and i64 are possible)");
  EXPECT_EQ(
      messageOf([&](tpc_context &c) { tpc_all_reduce(&c, 1, TPC_F32, 9, x, y, 4); }),
      "all_reduce over 'tp': cannot reduce elements of type f32 by reduction 9 (sum, max and min "
      "of floats, i32 and i64 are possible)");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_all_reduce(&c, 5, TPC_F32, TPC_SUM, x, y, 4); }),
            "all_reduce over 'tp': the grid has 2 axes, the mask is 5");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_all_gather(&c, 3, 17, x, y, 1, 4, 1); }),
            "all_gather over 'tp-pp': unknown element type 17");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_all_gather(&c, 3, TPC_F32, x, y, 1, -4, 1); }),
            "all_gather over 'tp-pp': negative size -4");
  EXPECT_EQ(messageOf([&](tpc_context &c) {
              tpc_reduce_scatter(&c, 2, TPC_F32, TPC_SUM, x, y, 1 << 30, 1 << 30, 1 << 30);
            }),
            "reduce_scatter over 'pp': the tensor's size does not fit into 64 bits");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_broadcast(&c, 2, TPC_F32, x, 4, 2); }),
            "broadcast over 'pp': there is no root 2 in a group of 2");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_send(&c, 2, TPC_F32, x, 4, 0); }),
            "send: the grid has no axis 2");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_recv(&c, 1, TPC_F32, x, 4, 2); }),
            "recv over 'pp': there is no coordinate 2 on an axis of size 2");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_send(&c, 0, TPC_F32, x, 4, c.coordinates[0]); }),
            "send over 'tp': the peer is the rank itself");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_frame_pop(&c, x); }),
            "internal error: a frame was freed that is not on the stack");
  EXPECT_EQ(messageOf([&](tpc_context &c) { tpc_frame_push(&c, INT64_MAX); }),
            "out of memory: a step requested 9223372036854775807 bytes in addition to 0 in use");
}

TEST(Errors, AFailedWorldStaysFailed) {
  auto world = World::threads(Grid({{"tp", 2}}), 1);
  EXPECT_TRUE(world->run([](tpc_context &ctx) {
    tpc_frame_push(&ctx, 1000);
    if (ctx.rank == 0)
      fail(ctx, "once");
  }));
  EXPECT_EQ(world->run([](tpc_context &) { ADD_FAILURE() << "must not run"; }), "rank 0: once");
  EXPECT_EQ(world->errorRank(), 0);
  EXPECT_EQ(world->local(0).arena.used(), 0u);
  // A single rank is not named.
  EXPECT_EQ(runWorld(1, [](tpc_context &ctx) { fail(ctx, "alone"); }), "alone");
}

TEST(World, RanksKeepTheirThreads) {
  auto world = World::threads(Grid({{"tp", 3}}), 1);
  std::vector<std::thread::id> first(3), second(3);
  EXPECT_FALSE(world->run([&](tpc_context &ctx) { first[ctx.rank] = std::this_thread::get_id(); }));
  EXPECT_FALSE(
      world->run([&](tpc_context &ctx) { second[ctx.rank] = std::this_thread::get_id(); }));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_TRUE(first[1] != first[0] && first[2] != first[1] && first[2] != first[0]);
}

TEST(Errors, TheProcessKeepsItsTerminateHandler) {
  std::terminate_handler before = std::get_terminate(), during = nullptr;
  EXPECT_FALSE(runWorld(2, [&](tpc_context &ctx) {
    if (ctx.rank == 1)
      during = std::get_terminate();
  }));
  EXPECT_EQ(during, before);
}
