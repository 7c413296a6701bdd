//===- StepsTest.cpp - Messages and counters over many steps --------------===//

#include "Harness.h"
#include "OnDevice.h"
#include "Reference.h"
#include <algorithm>
#include <chrono>
#include <list>
#include <thread>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

class Steps : public WorldTest {};

/// Returns the axes with more than one rank.
std::vector<int> wideAxes(const Grid &grid) {
  std::vector<int> axes;
  for (int i = 0; i < grid.numAxes(); ++i)
    if (grid.axes()[i].size > 1)
      axes.push_back(i);
  return axes;
}

} // namespace

// Along each axis, messages go from coordinate 0 to 1 to 2, as in pipelines.
TEST_P(Steps, MessagesArriveInOrder) {
  onAllRanks([](tpc_context &ctx) {
    for (int axis : wideAxes(ctx.grid)) {
      int64_t mine = ctx.coordinates[axis], size = ctx.grid.axes()[axis].size;
      for (int message = 0; message < 100; ++message) {
        int64_t count = message % 7 == 3 ? 0 : message % 5 == 0 ? 30000 : message;
        std::vector<int32_t> expected(count);
        for (int64_t i = 0; i < count; ++i)
          expected[i] = valueOf<int32_t>(message, axis, i);
        OnDevice<int32_t> data(ctx, mine == 0 ? expected : std::vector<int32_t>(count));
        if (mine > 0)
          tpc_recv(&ctx, axis, TPC_I32, data.data(), count, mine - 1);
        EXPECT_TRUE(data.read() == expected) << "rank " << ctx.rank << " message " << message;
        if (mine + 1 < size) {
          tpc_send(&ctx, axis, TPC_I32, data.data(), count, mine + 1);
          data.write(std::vector<int32_t>(count, -1)); // later writes must not change the message
        }
      }
    }
  });
}

// Message buffers grow while messages are in flight.
TEST_P(Steps, MessagesGrow) {
  onAllRanks([](tpc_context &ctx) {
    for (int axis : wideAxes(ctx.grid)) {
      int64_t mine = ctx.coordinates[axis], size = ctx.grid.axes()[axis].size;
      std::vector<std::vector<int32_t>> expected;
      std::list<OnDevice<int32_t>> messages;
      for (int64_t count : {300, 2000, 2000, 11000, 70000}) {
        expected.emplace_back(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i)
          expected.back()[static_cast<size_t>(i)] = valueOf<int32_t>(count, axis, i);
        messages.emplace_back(ctx, mine == 0 ? expected.back()
                                             : std::vector<int32_t>(expected.back().size()));
      }
      auto message = messages.begin();
      for (size_t i = 0; i < expected.size(); ++i, ++message) {
        auto count = static_cast<int64_t>(expected[i].size());
        if (mine > 0)
          tpc_recv(&ctx, axis, TPC_I32, message->data(), count, mine - 1);
        if (mine + 1 < size)
          tpc_send(&ctx, axis, TPC_I32, message->data(), count, mine + 1);
      }
      message = messages.begin();
      for (size_t i = 0; i < expected.size(); ++i, ++message)
        EXPECT_TRUE(message->read() == expected[i]) << "rank " << ctx.rank << " message " << i;
    }
  });
}

// Frame memory is released after the messages that read it.
TEST_P(Steps, MessagesOfMemoryThatIsReleased) {
  onAllRanks([](tpc_context &ctx) {
    MemorySource &frames = ctx.device->frames();
    for (int axis : wideAxes(ctx.grid)) {
      int64_t mine = ctx.coordinates[axis], size = ctx.grid.axes()[axis].size, count = 5000;
      OnDevice<int32_t> found(ctx, static_cast<size_t>(count));
      for (int message = 0; message < 10; ++message) {
        std::vector<int32_t> expected(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i)
          expected[static_cast<size_t>(i)] = valueOf<int32_t>(message, axis, i);
        OnDevice<int32_t> first(ctx, expected);
        void *buffer = frames.allocate(count * 4);
        ASSERT_NE(buffer, nullptr);
        if (mine == 0)
          ctx.device->copy(buffer, first.data(), count * 4);
        else
          tpc_recv(&ctx, axis, TPC_I32, buffer, count, mine - 1);
        if (mine + 1 < size)
          tpc_send(&ctx, axis, TPC_I32, buffer, count, mine + 1);
        ctx.device->copy(found.data(), buffer, count * 4);
        frames.release(buffer);
        EXPECT_TRUE(found.read() == expected) << "rank " << ctx.rank << " message " << message;
      }
    }
  });
}

// Messages in both directions at once; receivers are alternately early and late.
TEST_P(Steps, MessagesPassEachOther) {
  onAllRanks([](tpc_context &ctx) {
    for (int axis : wideAxes(ctx.grid)) {
      if (ctx.coordinates[axis] > 1)
        continue;
      int64_t mine = ctx.coordinates[axis], peer = 1 - mine;
      for (int64_t message = 0; message < 200; ++message) {
        if (message % 50 == mine * 25)
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        OnDevice<int64_t> out(ctx, {mine * 1000 + message}), in(ctx, 1);
        for (int64_t turn : {0, 1})
          if (turn == mine)
            tpc_send(&ctx, axis, TPC_I64, out.data(), 1, peer);
          else
            tpc_recv(&ctx, axis, TPC_I64, in.data(), 1, peer);
        EXPECT_EQ(in.read()[0], peer * 1000 + message);
      }
    }
  });
}

// The last rank of an axis posts one long message to each earlier rank. These ranks send long
// messages along the axis and receive the posts only at the end. So posts must not block, and must
// be copied.
TEST_P(Steps, PostsDoNotBlock) {
  constexpr int64_t longest = 60000;
  onAllRanks([](tpc_context &ctx) {
    Transport &host = ctx.transport->onHost();
    for (int axis : wideAxes(ctx.grid)) {
      int64_t mine = ctx.coordinates[axis], size = ctx.grid.axes()[axis].size;
      const std::vector<int> &line = ctx.group(uint32_t(1) << axis).ranks;
      for (int round = 0; round < 3; ++round) {
        for (int64_t message = 0; message < size; ++message) {
          int64_t count = message % 3 == 1 ? 1 : longest;
          OnDevice<int32_t> data(ctx, std::vector<int32_t>(count, static_cast<int32_t>(message)));
          if (mine > 0)
            tpc_recv(&ctx, axis, TPC_I32, data.data(), count, mine - 1);
          if (mine + 1 < size)
            tpc_send(&ctx, axis, TPC_I32, data.data(), count, mine + 1);
          std::vector<int64_t> tokens(static_cast<size_t>(count), message * 10 + round);
          for (int64_t to = 0; mine + 1 == size && to < mine; ++to)
            host.post(ctx, line[static_cast<size_t>(to)], tokens.data(), count * 8);
        }
        for (int64_t message = 0; mine + 1 < size && message < size; ++message) {
          int64_t count = message % 3 == 1 ? 1 : longest;
          std::vector<int64_t> tokens(static_cast<size_t>(count));
          host.take(ctx, line.back(), tokens.data(), count * 8);
          EXPECT_TRUE(tokens == std::vector<int64_t>(tokens.size(), message * 10 + round))
              << "rank " << ctx.rank << " message " << message;
        }
        if (mine + 1 == size)
          host.flushPosts(ctx);
      }
    }
  });
}

// Collectives of different groups and sizes follow each other directly: a fast rank must not
// disturb a slow one.
TEST_P(Steps, ManySmallCollectives) {
  onAllRanks([](tpc_context &ctx) {
    std::vector<uint32_t> masks = masksOf(ctx.grid);
    for (int step = 0; step < 300; ++step) {
      uint32_t axes = masks[mix(step) % masks.size()];
      std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
      int64_t count = step % 97 == 0 ? 20000 : 1 + step % 5;
      std::vector<float> mine(count);
      for (int64_t i = 0; i < count; ++i)
        mine[i] = valueOf<float>(step, ctx.rank, i);
      OnDevice<float> data(ctx, mine);
      tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, data.data(), data.data(), count);
      std::vector<float> got = data.read();
      Sums<float> expected;
      for (int64_t i : {int64_t(0), count - 1})
        expected.add(TPC_SUM, step, members, i);
      EXPECT_TRUE(expected.matches({got[0], got[count - 1]}, sumsInRankOrder(ctx)))
          << "step " << step;
      data.write(std::vector<float>(count, NAN)); // no rank may still be reading it
    }
  });
}

TEST_P(Steps, SameBitsEveryTime) {
  onAllRanks([](tpc_context &ctx) {
    uint32_t axes = ctx.grid.allAxes();
    std::vector<float> mine(12345), first;
    for (size_t i = 0; i < mine.size(); ++i)
      mine[i] = valueOf<float>(1, ctx.rank, i);
    OnDevice<float> in(ctx, mine), out(ctx, mine.size());
    for (int repeat = 0; repeat < 20; ++repeat) {
      if (int(mix(repeat) % ctx.worldSize()) == ctx.rank)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, in.data(), out.data(),
                     static_cast<int64_t>(mine.size()));
      if (first.empty())
        first = out.read();
      EXPECT_TRUE(sameBits(first, out.read())) << "repeat " << repeat;
    }
  });
}

// After the first step of a shape, no memory is allocated, and a smaller shape needs no new memory.
TEST_P(Steps, SteadyStateAllocatesNothing) {
  onAllRanks([](tpc_context &ctx) {
    auto write = [&](float *to, int64_t count, float value) {
      std::byte *host = ctx.device->beginWrite(to, count * 4);
      std::fill_n(reinterpret_cast<float *>(host), count, value);
      ctx.device->endWrite();
    };
    auto read = [&](const float *from) {
      Reading reading(*ctx.device, from, 4);
      float value;
      std::memcpy(&value, reading.data, 4);
      return value;
    };
    auto step = [&](int64_t n) {
      void *outer = tpc_frame_push(&ctx, n * 4);
      for (uint32_t axes : masksOf(ctx.grid)) {
        auto *in = static_cast<float *>(tpc_frame_push(&ctx, 3 * n * 4));
        auto *out = static_cast<float *>(tpc_frame_push(&ctx, 3 * n * 4));
        write(in, 3 * n, 1.0f);
        tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, in, out, 3 * n);
        Part part = ctx.group(axes).part(n, ctx.group(axes).index);
        tpc_reduce_scatter(&ctx, axes, TPC_F32, TPC_SUM, in, out, 3, n, 1);
        EXPECT_TRUE(part.size == 0 || read(out) == float(ctx.group(axes).size()));
        tpc_all_gather(&ctx, axes, TPC_F32, out, in, 3, n, 1);
        EXPECT_EQ(read(in + 3 * n - 1), float(ctx.group(axes).size()));
        tpc_frame_pop(&ctx, in);
      }
      tpc_frame_pop(&ctx, outer);
    };
    step(40000);
    step(40000);
    uint64_t before = ctx.arena.allocations();
    for (int i = 0; i < 5; ++i)
      step(40000 - 100 * i);
    EXPECT_EQ(ctx.arena.allocations(), before);
    EXPECT_EQ(ctx.arena.used(), 0u);
  });
}

TEST_P(Steps, CountersCountSentBytes) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid)) {
      ctx.counters.reset();
      OnDevice<float> data(ctx, std::vector<float>(64)), out(ctx, 64);
      for (int i = 0; i < 3; ++i)
        tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, data.data(), out.data(), 10);
      // An empty tensor is not sent.
      tpc_all_reduce(&ctx, axes, TPC_F32, TPC_SUM, data.data(), out.data(), 0);
      tpc_all_gather(&ctx, axes, TPC_F32, data.data(), out.data(), 1, 5, 2);
      tpc_reduce_scatter(&ctx, axes, TPC_F32, TPC_SUM, data.data(), out.data(), 2, 5, 1);
      tpc_broadcast(&ctx, axes, TPC_F32, data.data(), 7, 0);
      auto rows = ctx.counters.rows(ctx.grid);
      if (membersOf(ctx.grid, ctx.rank, axes).size() == 1) {
        EXPECT_TRUE(rows.empty());
        continue;
      }
      ASSERT_EQ(rows.size(), 4u);
      std::string label = ctx.grid.label(axes);
      auto check = [&](int row, const char *kind, int64_t count, int64_t bytes) {
        EXPECT_EQ(rows[row].axis, label);
        EXPECT_STREQ(spell(rows[row].kind), kind);
        EXPECT_EQ(rows[row].count, count);
        EXPECT_EQ(rows[row].bytes, bytes);
      };
      check(0, "all_reduce", 3, 120);
      check(1, "all_gather", 1, 40);
      check(2, "reduce_scatter", 1, 40);
      check(3, "broadcast", 1, 28);
    }
    // Only the sender counts a message.
    ctx.counters.reset();
    for (int axis : wideAxes(ctx.grid)) {
      OnDevice<int16_t> data(ctx, std::vector<int16_t>(9));
      if (ctx.coordinates[axis] == 0)
        tpc_send(&ctx, axis, TPC_I16, data.data(), 9, 1);
      if (ctx.coordinates[axis] == 1)
        tpc_recv(&ctx, axis, TPC_I16, data.data(), 9, 0);
    }
    int64_t sent = 0, bytes = 0, expected = 0;
    for (int axis : wideAxes(ctx.grid))
      expected += ctx.coordinates[axis] == 0;
    for (const auto &row : ctx.counters.rows(ctx.grid)) {
      EXPECT_EQ(row.kind, CollectiveKind::Send);
      sent += row.count;
      bytes += row.bytes;
    }
    EXPECT_EQ(sent, expected);
    EXPECT_EQ(bytes, expected * 18);
  });
}

TEST_P(Steps, GathersOutputsOnRankZero) {
  onAllRanks([](tpc_context &ctx) {
    std::vector<std::vector<std::byte>> gathered;
    for (int64_t scale : {0, 1, 1000, 3}) {
      std::vector<uint8_t> mine(ctx.rank * scale);
      for (size_t i = 0; i < mine.size(); ++i)
        mine[i] = valueOf<uint8_t>(scale, ctx.rank, i);
      ctx.transport->gatherBytes(ctx, mine.data(), mine.size(), gathered);
      if (ctx.rank != 0) {
        EXPECT_TRUE(gathered.empty());
        continue;
      }
      ASSERT_EQ(gathered.size(), size_t(ctx.worldSize()));
      for (int rank = 0; rank < ctx.worldSize(); ++rank) {
        ASSERT_EQ(gathered[rank].size(), size_t(rank * scale));
        for (size_t i = 0; i < gathered[rank].size(); ++i)
          EXPECT_EQ(uint8_t(gathered[rank][i]), valueOf<uint8_t>(scale, rank, i));
      }
    }
    ctx.transport->barrier(ctx);
  });
}

// A world can be run repeatedly, and keeps the state of its ranks.
TEST_P(Steps, RunsAgain) {
  auto world = makeWorld(GetParam());
  for (int run = 1; run <= 3; ++run) {
    auto error = world->run([&](tpc_context &ctx) {
      OnDevice<double> one(ctx, {1}), sum(ctx, 1);
      uint32_t axes = ctx.grid.allAxes();
      tpc_all_reduce(&ctx, axes, TPC_F64, TPC_SUM, one.data(), sum.data(), 1);
      EXPECT_EQ(sum.read()[0], ctx.worldSize());
      auto rows = ctx.counters.rows(ctx.grid);
      ASSERT_EQ(rows.size(), ctx.worldSize() > 1 ? 1u : 0u);
      if (!rows.empty())
        EXPECT_EQ(rows[0].count, run);
    });
    EXPECT_FALSE(error) << *error;
  }
}

TPC_INSTANTIATE_WORLDS(Steps, 32);
