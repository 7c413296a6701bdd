//===- CommPlanTest.cpp - Host execution of communication plans -----------===//
//
// Executes the plans of all members of a group together, as NCCL would. The members' calls must
// match. Results must be those of the host: core/AllToAll.h, BlockMove.h, Exchange.h, and reduce().
//
//===----------------------------------------------------------------------===//

#include "transport/devices/CommPlan.h"
#include "core/AllToAll.h"
#include "core/BlockMove.h"
#include "core/DType.h"
#include "core/Exchange.h"
#include "core/Reduce.h"
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace tpc::rt;

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte unwritten{0xee};

/// Plan of a member, and memory of exactly the required size.
struct Member {
  CommPlan plan;
  Bytes in, out, stage{};

  Bytes &memory(CommMemory which) {
    return which == CommMemory::In ? in : which == CommMemory::Out ? out : stage;
  }
  /// Fails the test if the range is out of bounds.
  std::byte *at(CommAddress address, int64_t bytes) {
    Bytes &all = memory(address.memory);
    bool inside = address.offset >= 0 && bytes >= 0 &&
                  address.offset + bytes <= static_cast<int64_t>(all.size());
    EXPECT_TRUE(inside) << "bytes [" << address.offset << ", " << address.offset + bytes << ") of "
                        << all.size();
    return inside ? all.data() + address.offset : nullptr;
  }
  void copy(const std::vector<CommCopy> &copies) {
    for (const CommCopy &copy : copies)
      for (int64_t row = 0; row < copy.rows; ++row) {
        CommAddress from = copy.from, to = copy.to;
        from.offset += row * copy.fromStride;
        to.offset += row * copy.toStride;
        EXPECT_GE(std::min(copy.fromStride, copy.toStride), copy.width);
        std::byte *source = at(from, copy.width), *target = at(to, copy.width);
        if (source && target)
          std::copy_n(source, copy.width, target);
      }
  }
};

/// Executes the calls of all members. Checks that they match in kind, count, type and root, and
/// that each send has its receive.
void call(std::vector<Member> &members) {
  int count = static_cast<int>(members.size());
  std::map<std::pair<int, int>, std::deque<std::pair<std::byte *, int64_t>>> sent;
  std::vector<const CommCall *> together;
  for (int i = 0; i < count; ++i)
    for (const CommCall &c : members[i].plan.calls)
      if (c.kind == CommCall::Send)
        sent[{i, c.peer}].push_back({members[i].at(c.from, c.count), c.count});
      else if (c.kind != CommCall::Receive)
        together.push_back(&c);
  for (int i = 0; i < count; ++i)
    for (const CommCall &c : members[i].plan.calls)
      if (c.kind == CommCall::Receive) {
        EXPECT_GT(c.count, 0);
        auto &waiting = sent[{c.peer, i}];
        ASSERT_FALSE(waiting.empty()) << "rank " << i << " waits for " << c.peer;
        EXPECT_EQ(waiting.front().second, c.count);
        std::copy_n(waiting.front().first, c.count, members[i].at(c.to, c.count));
        waiting.pop_front();
      }
  for (auto &[pair, left] : sent)
    EXPECT_TRUE(left.empty()) << pair.first << " sends a message that " << pair.second
                              << " does not receive";
  if (together.empty())
    return;
  ASSERT_EQ(together.size(), members.size());
  const CommCall &first = *together[0];
  int64_t bytes = first.count * sizeOf(first.dtype);
  for (const CommCall *c : together)
    ASSERT_TRUE(c->kind == first.kind && c->count == first.count && c->dtype == first.dtype &&
                c->reduction == first.reduction && c->peer == first.peer);
  std::vector<Bytes> inputs;
  int64_t given = first.kind == CommCall::ReduceScatter ? bytes * count : bytes;
  for (int i = 0; i < count; ++i) {
    std::byte *from = members[i].at(together[i]->from, given);
    ASSERT_TRUE(from);
    inputs.emplace_back(from, from + given);
  }
  for (int i = 0; i < count; ++i) {
    bool gathers = first.kind == CommCall::AllGather;
    std::byte *to = members[i].at(together[i]->to, gathers ? bytes * count : bytes);
    ASSERT_TRUE(to);
    int64_t offset = first.kind == CommCall::ReduceScatter ? i * bytes : 0;
    std::vector<const void *> at;
    for (const Bytes &input : inputs)
      at.push_back(input.data() + offset);
    if (gathers)
      for (int j = 0; j < count; ++j)
        std::copy_n(inputs[j].data(), bytes, to + j * bytes);
    else if (first.kind == CommCall::Broadcast)
      std::copy_n(inputs[first.peer].data(), bytes, to);
    else
      reduce(first.dtype, first.reduction, to, at.data(), count, first.count);
  }
}

void carryOut(std::vector<Member> &members) {
  for (Member &member : members) {
    member.stage.assign(member.plan.stageBytes, unwritten);
    for (const CommFill &fill : member.plan.fills)
      if (std::byte *at = member.at(fill.at, fill.bytes))
        std::fill_n(at, fill.bytes, std::byte(0));
    member.copy(member.plan.before);
  }
  call(members);
  for (Member &member : members)
    member.copy(member.plan.after);
}

/// Small integers as f32: their sums are exact in any order.
Bytes numbers(int64_t bytes, int seed) {
  std::mt19937 random(seed);
  Bytes result(bytes);
  if (bytes % 4)
    for (std::byte &byte : result)
      byte = std::byte(random() % 200);
  else
    for (int64_t at = 0; at < bytes; at += 4) {
      float value = static_cast<float>(random() % 1000);
      std::memcpy(result.data() + at, &value, 4);
    }
  return result;
}

Group groupOf(const Grid &grid, int rank) { return grid.groupOf(rank, grid.allAxes()); }

const std::vector<Grid> &grids() {
  static const std::vector<Grid> all = {Grid({{"tp", 2}}), Grid({{"tp", 3}}),
                                        Grid({{"tp", 2}, {"dp", 2}}), Grid({{"tp", 3}, {"cp", 2}}),
                                        Grid({{"tp", 8}})};
  return all;
}

struct Sizes {
  int64_t outer, n, inner;
};
/// Even, uneven and empty shards, strided and contiguous; `inner` in bytes.
constexpr Sizes sizes[] = {{1, 24, 4}, {1, 1, 8},  {1, 7, 12}, {3, 24, 4},
                           {5, 7, 8},  {4, 2, 20}, {2, 48, 4}, {7, 5, 4}};

template <typename Plan> std::vector<Member> membersOf(const Grid &grid, Plan plan) {
  std::vector<Member> members;
  for (int rank = 0; rank < grid.numRanks(); ++rank)
    members.push_back({plan(groupOf(grid, rank)), {}, {}});
  return members;
}

/// Checks that every output consists of the inputs' tensor blocks.
template <typename BlockSource, typename Plan>
void checkBlocks(const Grid &grid, const BlockSource &blockSource,
                 const std::vector<int64_t> &outBytes, Plan plan) {
  std::vector<Member> members = membersOf(grid, plan);
  int count = grid.numRanks();
  std::vector<Bytes> expected;
  for (int i = 0; i < count; ++i) {
    members[i].in = numbers(blockSource.inBytes(i), i + 1);
    members[i].out.assign(outBytes[i], unwritten);
    expected.push_back(members[i].out);
  }
  for (int to = 0; to < count; ++to)
    for (int from = 0; from < count; ++from)
      blockSource.tensorBlock(from, to).copyThrough(expected[to].data(), members[from].in.data());
  carryOut(members);
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(members[i].out, expected[i]) << "member " << i << " of " << count;
}

} // namespace

TEST(CommPlan, AllGather) {
  for (const Grid &grid : grids())
    for (Sizes s : sizes) {
      std::vector<Member> members = membersOf(
          grid, [&](const Group &group) { return planAllGather(group, s.outer, s.n, s.inner); });
      Bytes whole = numbers(s.outer * s.n * s.inner, 1);
      for (int i = 0; i < grid.numRanks(); ++i) {
        Part part = groupOf(grid, 0).part(s.n, i);
        for (int64_t o = 0; o < s.outer; ++o) {
          auto begin = whole.begin() + (o * s.n + part.offset) * s.inner;
          members[i].in.insert(members[i].in.end(), begin, begin + part.size * s.inner);
        }
        members[i].out.assign(whole.size(), unwritten);
      }
      carryOut(members);
      for (Member &member : members)
        EXPECT_EQ(member.out, whole) << s.outer << " " << s.n << " " << s.inner;
    }
}

TEST(CommPlan, ReduceScatter) {
  for (const Grid &grid : grids())
    for (tpc_reduction reduction : {TPC_SUM, TPC_MAX, TPC_MIN})
      for (Sizes s : sizes) {
        std::vector<Member> members = membersOf(grid, [&](const Group &group) {
          return planReduceScatter(group, TPC_F32, reduction, s.outer, s.n, s.inner);
        });
        int64_t bytes = s.outer * s.n * s.inner;
        std::vector<const void *> inputs;
        for (int i = 0; i < grid.numRanks(); ++i)
          members[i].in = numbers(bytes, i + 1);
        for (Member &member : members)
          inputs.push_back(member.in.data());
        Bytes whole(bytes);
        reduce(TPC_F32, reduction, whole.data(), inputs.data(), grid.numRanks(), bytes / 4);
        std::vector<Bytes> expected(members.size());
        for (int i = 0; i < grid.numRanks(); ++i) {
          Part part = groupOf(grid, 0).part(s.n, i);
          for (int64_t o = 0; o < s.outer; ++o) {
            auto begin = whole.begin() + (o * s.n + part.offset) * s.inner;
            expected[i].insert(expected[i].end(), begin, begin + part.size * s.inner);
          }
          members[i].out.assign(expected[i].size(), unwritten);
        }
        carryOut(members);
        for (int i = 0; i < grid.numRanks(); ++i)
          EXPECT_EQ(members[i].out, expected[i]) << s.outer << " " << s.n << " " << s.inner;
      }
}

TEST(CommPlan, AllReduceAndBroadcast) {
  for (const Grid &grid : grids()) {
    std::vector<Member> members =
        membersOf(grid, [](const Group &) { return planAllReduce(TPC_F32, TPC_SUM, 9); });
    for (int i = 0; i < grid.numRanks(); ++i) {
      members[i].in = numbers(36, i);
      members[i].out.assign(36, unwritten);
    }
    carryOut(members);
    for (Member &member : members)
      EXPECT_EQ(member.out, members[0].out);
    int last = grid.numRanks() - 1;
    members = membersOf(grid, [&](const Group &) { return planBroadcast(11, last); });
    for (int i = 0; i < grid.numRanks(); ++i)
      members[i].out = numbers(11, i);
    Bytes expected = members[last].out;
    carryOut(members);
    for (Member &member : members)
      EXPECT_EQ(member.out, expected);
  }
}

TEST(CommPlan, AllToAll) {
  for (const Grid &grid : grids())
    for (bool splitFirst : {false, true})
      for (AllToAllShape shape : {AllToAllShape{1, 24, 1, 48, 4, false},
                                  {2, 7, 3, 5, 4, false},
                                  {1, 24, 1, 1, 8, false},
                                  {3, 1, 2, 24, 4, false}}) {
        shape.splitFirst = splitFirst;
        Group group = groupOf(grid, 0);
        std::vector<int64_t> outBytes;
        for (int i = 0; i < group.size(); ++i) {
          AllToAllShape back = shape;
          back.splitFirst = !splitFirst;
          outBytes.push_back(AllToAll(group, back).inBytes(i));
        }
        checkBlocks(grid, AllToAll(group, shape), outBytes,
                    [&](const Group &mine) { return planAllToAll(mine, shape); });
      }
}

TEST(CommPlan, Permute) {
  for (const Grid &grid : grids()) {
    std::vector<int> axes(grid.numAxes());
    for (int i = 0; i < grid.numAxes(); ++i)
      axes[i] = i;
    for (int64_t first : {0, 1, 5})
      for (PermuteShape shape : {PermuteShape{1, 1, 24, 1, 4, 0, {axes, {}}, {axes, {}}},
                                 {3, 2, 7, 2, 4, 0, {{}, axes}, {{}, axes}},
                                 {2, 3, 5, 1, 8, 0, {axes, {}}, {{}, axes}}}) {
        shape.first = first % (shape.n * shape.unit);
        Group group = groupOf(grid, 0);
        BlockMove move(grid, group, shape);
        std::vector<int64_t> outBytes;
        for (int i = 0; i < group.size(); ++i)
          outBytes.push_back(move.outBytes(i));
        checkBlocks(grid, move, outBytes,
                    [&](const Group &mine) { return planPermute(grid, mine, shape); });
      }
  }
}

TEST(CommPlan, Exchange) {
  for (const Grid &grid : grids()) {
    std::vector<int> axes(grid.numAxes());
    for (int i = 0; i < grid.numAxes(); ++i)
      axes[i] = i;
    for (auto [m, n] : {std::pair<int64_t, int64_t>(24, 48), {5, 7}, {1, 3}})
      for (ExchangeShape shape :
           {ExchangeShape{{{{{m, axes, {}}}, {}, {}}, {{{n, {}, axes}}, {}, {}}}, 4},
            ExchangeShape{{{{{m, {}, {}}, {n, axes, {}}}, {}, axes}, {{{3, {}, {}}}, {}, {}}}, 4},
            ExchangeShape{{{{{3, {}, {}}}, {}, {}}, {{{m, {}, {}}, {n, {}, {}}}, axes, {}}}, 2}}) {
        Group group = groupOf(grid, 0);
        Exchange exchange(grid, group, shape);
        std::vector<int64_t> outBytes;
        for (int i = 0; i < group.size(); ++i)
          outBytes.push_back(exchange.outBytes(i));
        checkBlocks(grid, exchange, outBytes,
                    [&](const Group &mine) { return planExchange(grid, mine, shape); });
      }
  }
}

TEST(CommPlan, ContiguousDataIsPassedDirectly) {
  Grid grid({{"tp", 4}});
  Group group = groupOf(grid, 1);
  auto expectDirect = [](const CommPlan &plan) {
    EXPECT_EQ(plan.stageBytes, 0);
    EXPECT_TRUE(plan.after.empty());
  };
  expectDirect(planAllGather(group, 1, 8, 12));
  expectDirect(planAllGather(group, 1, 7, 12));
  expectDirect(planReduceScatter(group, TPC_F32, TPC_SUM, 1, 8, 4));
  // Shift of a split dimension: at most two messages, both contiguous.
  expectDirect(planPermute(grid, group, {1, 1, 8, 1, 4, 1, {{0}, {}}, {{0}, {}}}));
}

TEST(CommPlan, CopiesAreFew) {
  Grid grid({{"tp", 4}});
  Group group = groupOf(grid, 1);
  // One copy per member, whatever the number of rows. An all-to-all has copies on both sides, of
  // its own block only one.
  EXPECT_EQ(planAllGather(group, 4096, 8, 12).after.size(), 4u);
  EXPECT_EQ(planReduceScatter(group, TPC_F32, TPC_SUM, 4096, 7, 12).before.size(), 4u);
  CommPlan plan = planAllToAll(group, {1, 512, 1, 16, 256, true});
  EXPECT_LE(plan.before.size() + plan.after.size(), 7u);
}

TEST(CommPlan, WarmUpFits) {
  for (const Grid &grid : grids())
    for (size_t i = 0; i < planWarmUp(groupOf(grid, 0)).size(); ++i) {
      std::vector<Member> members =
          membersOf(grid, [&](const Group &group) { return planWarmUp(group)[i]; });
      carryOut(members);
    }
}
