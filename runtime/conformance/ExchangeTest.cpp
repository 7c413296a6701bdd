//===- ExchangeTest.cpp - Exchanges against the reference -----------------===//

#include "Harness.h"
#include "OnDevice.h"
#include "Reference.h"
#include "core/Counters.h"
#include <algorithm>
#include <iterator>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

class Exchanges : public WorldTest {};

using AxisList = std::vector<int32_t>;
/// Split of a dimension before or after the exchange: axes that split each factor, and axes that
/// then split the product of the factors.
struct Split {
  std::vector<AxisList> factors;
  AxisList product;
};
struct Dim {
  std::vector<int64_t> sizes;
  Split before, after;
};

/// Returns the indices of a rank's shard of a dimension.
std::vector<int64_t> indicesOf(const Grid &grid, int rank, const std::vector<int64_t> &sizes,
                               const Split &split) {
  auto take = [&](std::vector<int64_t> list, const AxisList &axes) {
    for (int32_t axis : axes) {
      int64_t stride = 1;
      for (int32_t i = 0; i < axis; ++i)
        stride *= grid.axes()[i].size;
      int64_t size = grid.axes()[axis].size, coordinate = rank / stride % size;
      std::vector<std::vector<int64_t>> parts =
          conformance::indicesOf(static_cast<int64_t>(list.size()), {size});
      std::vector<int64_t> kept;
      for (int64_t i : parts[coordinate])
        kept.push_back(list[i]);
      list = kept;
    }
    return list;
  };
  std::vector<int64_t> all = {0};
  for (size_t f = 0; f < sizes.size(); ++f) {
    std::vector<int64_t> own(sizes[f]), next;
    std::iota(own.begin(), own.end(), 0);
    own = take(own, split.factors[f]);
    for (int64_t major : all)
      for (int64_t minor : own)
        next.push_back(major * sizes[f] + minor);
    all = next;
  }
  return take(all, split.product);
}

/// Returns the indices, in the whole tensor, of a rank's elements, row by row.
std::vector<int64_t> elementsOf(const Grid &grid, int rank, const std::vector<Dim> &dims,
                                Split Dim::*side) {
  std::vector<int64_t> all = {0};
  for (const Dim &dim : dims) {
    int64_t size = 1;
    for (int64_t factor : dim.sizes)
      size *= factor;
    std::vector<int64_t> next;
    for (int64_t major : all)
      for (int64_t minor : indicesOf(grid, rank, dim.sizes, dim.*side))
        next.push_back(major * size + minor);
    all = next;
  }
  return all;
}

void check(tpc_context &ctx, const std::vector<Dim> &dims, bool evenly) {
  uint32_t axes = 0;
  std::vector<int32_t> layout = {static_cast<int32_t>(dims.size())};
  std::vector<int64_t> sizes;
  auto append = [&](const AxisList &list) {
    for (int32_t axis : list) {
      axes |= uint32_t(1) << axis;
      layout.push_back(axis);
    }
    layout.push_back(-1);
  };
  for (const Dim &dim : dims) {
    layout.push_back(static_cast<int32_t>(dim.sizes.size()));
    for (size_t f = 0; f < dim.sizes.size(); ++f) {
      sizes.push_back(dim.sizes[f]);
      append(dim.before.factors[f]);
      append(dim.after.factors[f]);
    }
    append(dim.before.product);
    append(dim.after.product);
  }
  std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
  auto valuesOf = [&](const std::vector<int64_t> &elements) {
    std::vector<float> values;
    for (int64_t element : elements)
      values.push_back(valueOf<float>(7, members[0], element));
    return values;
  };
  OnDevice<float> in(ctx, valuesOf(elementsOf(ctx.grid, ctx.rank, dims, &Dim::before)));
  std::vector<float> expected = valuesOf(elementsOf(ctx.grid, ctx.rank, dims, &Dim::after));
  OnDevice<float> out(ctx, expected.size());
  ctx.counters.reset();
  tpc_exchange(&ctx, layout.data(), TPC_F32, in.data(), out.data(), sizes.data());
  EXPECT_TRUE(sameBits(out.read(), expected)) << "rank " << ctx.rank << " axes " << axes;

  // Each rank receives exactly the elements that it needs and lacks. The exchange counts the
  // maximum bytes that a rank sends or receives. With equal shards over at most two axes
  // (`evenly`), no rank sends more than the receivers' maximum. (Two senders cannot divide three
  // boxes of equal size evenly.)
  int64_t maximum = 0;
  for (int member : members) {
    // Both shards are boxes, and so is their intersection: its size is a product over the
    // dimensions.
    int64_t needs = 1, keeps = 1;
    for (const Dim &dim : dims) {
      std::vector<int64_t> has = indicesOf(ctx.grid, member, dim.sizes, dim.before);
      std::vector<int64_t> needed = indicesOf(ctx.grid, member, dim.sizes, dim.after), both;
      std::set_intersection(has.begin(), has.end(), needed.begin(), needed.end(),
                            std::back_inserter(both));
      needs *= static_cast<int64_t>(needed.size());
      keeps *= static_cast<int64_t>(both.size());
    }
    int64_t lacks = needs - keeps;
    maximum = std::max<int64_t>(maximum, lacks * 4);
  }
  std::vector<Counters::Row> rows = ctx.counters.rows(ctx.grid);
  ASSERT_EQ(rows.size(), maximum > 0 ? 1u : 0u);
  if (maximum > 0) {
    EXPECT_EQ(rows[0].kind, CollectiveKind::Exchange);
    EXPECT_GE(rows[0].bytes, maximum);
    if (evenly)
      EXPECT_EQ(rows[0].bytes, maximum);
  }
}

/// Returns all lists of distinct axes, including the empty one.
std::vector<AxisList> listsOf(const Grid &grid) {
  std::vector<AxisList> lists = {{}};
  for (size_t i = 0; i < lists.size(); ++i)
    for (int32_t axis = 0; axis < grid.numAxes(); ++axis)
      if (std::find(lists[i].begin(), lists[i].end(), axis) == lists[i].end()) {
        lists.push_back(lists[i]);
        lists.back().push_back(axis);
      }
  return lists;
}

bool areDisjoint(const AxisList &a, const AxisList &b) {
  return std::none_of(a.begin(), a.end(),
                      [&](int32_t axis) { return std::find(b.begin(), b.end(), axis) != b.end(); });
}

using Pairs = std::vector<std::pair<AxisList, AxisList>>;
/// Returns all disjoint pairs of lists.
Pairs pairsOf(const Grid &grid) {
  Pairs pairs;
  for (const AxisList &a : listsOf(grid))
    for (const AxisList &b : listsOf(grid))
      if (areDisjoint(a, b))
        pairs.push_back({a, b});
  return pairs;
}

Dim split(int64_t size, const AxisList &before, const AxisList &after) {
  Dim dim{{size}, {}, {}};
  dim.before.factors.push_back(before);
  dim.after.factors.push_back(after);
  return dim;
}

} // namespace

TEST_P(Exchanges, Dimensions) {
  onAllRanks([](tpc_context &ctx) {
    int64_t even = ctx.grid.numRanks();
    int numSplitAxes = 0;
    for (const Grid::Axis &axis : ctx.grid.axes())
      numSplitAxes += axis.size > 1;
    Pairs pairs = pairsOf(ctx.grid);
    // All pairs for few axes, a sample for more.
    size_t step = 1 + pairs.size() / 20;
    for (size_t i = 0; i < pairs.size(); i += step)
      for (size_t j = i % step; j < pairs.size(); j += step)
        for (auto [m, n] : {std::pair(even, 2 * even), std::pair<int64_t, int64_t>(5, 7),
                            std::pair<int64_t, int64_t>(3, 0)})
          check(ctx,
                {split(m, pairs[i].first, pairs[j].first), split(2, {}, {}),
                 split(n, pairs[i].second, pairs[j].second)},
                m == even && numSplitAxes <= 2);
  });
}

TEST_P(Exchanges, Factors) {
  onAllRanks([](tpc_context &ctx) {
    Pairs pairs = pairsOf(ctx.grid);
    size_t step = 1 + pairs.size() / 12;
    for (size_t i = 0; i < pairs.size(); i += step)
      for (size_t j = 0; j < pairs.size(); j += step)
        for (auto [m, n] : {std::pair<int64_t, int64_t>(4, 6), std::pair<int64_t, int64_t>(3, 5)}) {
          const auto &[a, b] = pairs[i];
          const auto &[c, d] = pairs[j];
          // A factor and the product, two factors, the product alone.
          const AxisList none;
          check(ctx, {{{m, n}, {{a, none}, b}, {{c, none}, d}}}, false);
          check(ctx, {{{m, n}, {{a, b}, none}, {{none, none}, c}}}, false);
          check(ctx, {{{m, n}, {{none, none}, a}, {{c, d}, none}}, split(3, {}, {})}, false);
        }
  });
}

TEST_P(Exchanges, Types) {
  onAllRanks([](tpc_context &ctx) {
    // Copies depend only on the size of the element type.
    int64_t p = ctx.grid.axes()[0].size, size = p;
    int32_t layout[] = {1, 1, 0, -1, -1, -1, -1};
    OnDevice<uint8_t> mine(ctx, {static_cast<uint8_t>(ctx.coordinates[0])}), all(ctx, p);
    tpc_exchange(&ctx, layout, TPC_U8, mine.data(), all.data(), &size);
    std::vector<uint8_t> got = all.read();
    for (int64_t i = 0; i < p; ++i)
      EXPECT_EQ(got[i], i);
  });
}

TPC_INSTANTIATE_WORLDS(Exchanges, 12);
// Under a launcher of 32 ranks there are no instances.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Exchanges);
