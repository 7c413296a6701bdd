//===- PermuteTest.cpp - Collective-permutes against the reference --------===//

#include "Harness.h"
#include "OnDevice.h"
#include "Reference.h"
#include "core/Counters.h"
#include <algorithm>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

class Permutes : public WorldTest {};

struct Sizes {
  int64_t outer, blocks, n, unit, inner;
};

/// Split (blocks * n{axesOfN} * unit){axesOfProduct} of the input or of the output. The axes of
/// axesOfProduct split what remains of each shard. Major axes first.
struct Split {
  std::vector<int32_t> axesOfN, axesOfProduct;
};

/// Returns the indices into [blocks * n * unit] that a rank has.
std::vector<int64_t> indicesOnRank(const Grid &grid, int rank, const Sizes &s, const Split &split) {
  std::vector<int64_t> coordinates;
  for (int64_t rest = rank; const Grid::Axis &axis : grid.axes()) {
    coordinates.push_back(rest % axis.size);
    rest /= axis.size;
  }
  auto take = [&](std::vector<int64_t> list, const std::vector<int32_t> &axes) {
    for (int32_t axis : axes) {
      std::vector<std::vector<int64_t>> parts =
          conformance::indicesOf(static_cast<int64_t>(list.size()), {grid.axes()[axis].size});
      std::vector<int64_t> kept;
      for (int64_t i : parts[coordinates[axis]])
        kept.push_back(list[i]);
      list = kept;
    }
    return list;
  };
  std::vector<int64_t> own(s.n), all;
  std::iota(own.begin(), own.end(), 0);
  own = take(own, split.axesOfN);
  for (int64_t block = 0; block < s.blocks; ++block)
    for (int64_t i : own)
      for (int64_t u = 0; u < s.unit; ++u)
        all.push_back((block * s.n + i) * s.unit + u);
  return take(all, split.axesOfProduct);
}

/// Returns a rank's elements of its group's tensor, with each block rotated by `shift`.
std::vector<float> valuesOf(const Sizes &s, const std::vector<int64_t> &indices, uint64_t owner,
                            int64_t shift) {
  std::vector<float> values;
  int64_t run = s.n * s.unit;
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t index : indices) {
      int64_t from = index / run * run + ((index % run + shift) % run + run) % run;
      for (int64_t i = 0; i < s.inner; ++i)
        values.push_back(valueOf<float>(6, owner, ((o * s.blocks * run) + from) * s.inner + i));
    }
  return values;
}

void check(tpc_context &ctx, const Sizes &s, const Split &in, const Split &out, int64_t shift) {
  uint32_t axes = 0;
  std::vector<int32_t> splits;
  for (const std::vector<int32_t> *list :
       {&in.axesOfN, &in.axesOfProduct, &out.axesOfN, &out.axesOfProduct}) {
    for (int32_t axis : *list)
      axes |= uint32_t(1) << axis;
    splits.insert(splits.end(), list->begin(), list->end());
    splits.push_back(-1);
  }
  std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
  uint64_t owner = members[0];
  OnDevice<float> before(ctx, valuesOf(s, indicesOnRank(ctx.grid, ctx.rank, s, in), owner, 0));
  std::vector<float> expected =
      valuesOf(s, indicesOnRank(ctx.grid, ctx.rank, s, out), owner, shift);
  OnDevice<float> result(ctx, expected.size());
  ctx.counters.reset();
  tpc_collective_permute(&ctx, splits.data(), TPC_F32, before.data(), result.data(), s.outer,
                         s.blocks, s.n, s.unit, s.inner, shift);
  EXPECT_TRUE(sameBits(result.read(), expected))
      << "rank " << ctx.rank << " axes " << axes << " sizes " << s.outer << " " << s.blocks << " "
      << s.n << " " << s.unit << " " << s.inner << " shift " << shift;

  // All members count the bytes of the member that sends the most.
  int64_t maximum = 0, run = s.n * s.unit;
  for (int member : members) {
    std::vector<int64_t> had = indicesOnRank(ctx.grid, member, s, in), sources;
    for (int64_t index : indicesOnRank(ctx.grid, member, s, out))
      sources.push_back(index / run * run + ((index % run + shift) % run + run) % run);
    std::sort(sources.begin(), sources.end());
    int64_t sent = 0;
    for (int64_t index : had)
      sent += !std::binary_search(sources.begin(), sources.end(), index);
    maximum = std::max(maximum, sent * s.outer * s.inner * int64_t(sizeof(float)));
  }
  std::vector<Counters::Row> rows = ctx.counters.rows(ctx.grid);
  EXPECT_EQ(rows.size(), maximum > 0 ? 1u : 0u);
  for (const Counters::Row &row : rows) {
    EXPECT_EQ(row.kind, CollectiveKind::CollectivePermute);
    EXPECT_EQ(row.bytes, maximum);
  }
}

constexpr Sizes sizes[] = {{1, 1, 8, 1, 1}, {2, 1, 7, 1, 3},  {1, 3, 5, 1, 2},  {1, 1, 0, 1, 2},
                           {0, 2, 4, 1, 1}, {1, 0, 4, 1, 1},  {1, 4, 1, 1, 3},  {1, 5, 3, 2, 1},
                           {2, 1, 2, 9, 1}, {1, 2, 37, 1, 5}, {1, 1, 90, 1, 70}};

/// Returns some orders of a mask's axes; none for an empty mask.
std::vector<std::vector<int32_t>> ordersOf(const Grid &grid, uint32_t mask) {
  std::vector<int32_t> axes;
  for (int32_t i = 0; i < grid.numAxes(); ++i)
    if (mask >> i & 1)
      axes.push_back(i);
  std::vector<std::vector<int32_t>> orders;
  if (axes.empty())
    return orders;
  do
    orders.push_back(axes);
  while (std::next_permutation(axes.begin(), axes.end()) && orders.size() < 3);
  return orders;
}

} // namespace

TEST_P(Permutes, Shifts) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t mask : masksOf(ctx.grid))
      for (const Sizes &s : sizes)
        for (int64_t shift : {int64_t(0), int64_t(1), int64_t(-1), int64_t(3), s.n * s.unit - 2,
                              s.n * s.unit + 5, int64_t(-1000003)})
          for (const std::vector<int32_t> &order : ordersOf(ctx.grid, mask)) {
            check(ctx, s, {order, {}}, {order, {}}, shift);
            check(ctx, s, {{}, order}, {{}, order}, shift);
            Split both{{order[0]}, {order.begin() + 1, order.end()}};
            check(ctx, s, both, both, shift);
          }
  });
}

TEST_P(Permutes, OtherOrders) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t mask : masksOf(ctx.grid))
      for (const Sizes &s : sizes)
        for (int64_t shift : {0, 2}) {
          std::vector<std::vector<int32_t>> orders = ordersOf(ctx.grid, mask);
          for (const std::vector<int32_t> &order : orders) {
            check(ctx, s, {orders[0], {}}, {order, {}}, shift);
            check(ctx, s, {order, {}}, {{}, orders[0]}, shift);
            check(ctx, s, {{}, orders[0]}, {{order[0]}, {order.begin() + 1, order.end()}}, shift);
          }
        }
  });
}

TEST_P(Permutes, OtherElementTypes) {
  onAllRanks([](tpc_context &ctx) {
    // The other tests use f32. Elements of any type are moved as bytes.
    int32_t splits[] = {0, -1, -1, 0, -1, -1};
    int64_t p = ctx.grid.axes()[0].size;
    OnDevice<uint8_t> mine(ctx, {static_cast<uint8_t>(ctx.coordinates[0])}), got(ctx, 1);
    tpc_collective_permute(&ctx, splits, TPC_U8, mine.data(), got.data(), 1, 1, p, 1, 1, 1);
    EXPECT_EQ(got.read()[0], (ctx.coordinates[0] + 1) % p);
    OnDevice<double> wide(ctx, {double(ctx.coordinates[0]) / 3}), next(ctx, 1);
    tpc_collective_permute(&ctx, splits, TPC_F64, wide.data(), next.data(), 1, 1, p, 1, 1, -1);
    EXPECT_EQ(next.read()[0], double((ctx.coordinates[0] + p - 1) % p) / 3);
  });
}

TPC_INSTANTIATE_WORLDS(Permutes, 12);
// No grid of at most 12 ranks fits a launch of more, such as the one with 32 ranks.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Permutes);
