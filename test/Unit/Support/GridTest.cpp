//===- GridTest.cpp - Grids -----------------------------------------------===//

#include "tpc/Support/Grid.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

using namespace tpc;

using Groups = std::vector<std::vector<int64_t>>;

static Grid makeGrid(std::array<int64_t, numAxes> sizes, std::vector<Axis> order) {
  std::string error;
  std::optional<Grid> grid = Grid::get(sizes, order, error);
  EXPECT_TRUE(grid) << error;
  return grid.value_or(Grid());
}

static AxisSet axes(std::string_view text) {
  std::string error;
  std::optional<AxisSet> set = AxisSet::parse(text, error);
  EXPECT_TRUE(set) << error;
  return set.value_or(AxisSet());
}

TEST(Grid, OneRank) {
  Grid grid;
  EXPECT_EQ(grid.worldSize(), 1);
  EXPECT_EQ(grid.groups({Axis::TP, Axis::PP}), Groups({{0}}));
  EXPECT_EQ(grid.orderText(), "tp-cp-ep-dp-pp");
}

// Megatron's own example: 16 GPUs, tp 2, pp 4, dp 2.
TEST(Grid, ExampleOfMegatron) {
  Grid grid = makeGrid({2, 1, 1, 2, 4}, {Axis::TP, Axis::CP, Axis::EP, Axis::DP, Axis::PP});
  EXPECT_EQ(grid.groups(axes("tp")),
            Groups({{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(grid.groups(axes("pp")),
            Groups({{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(grid.groups(axes("dp")),
            Groups({{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(grid.groups(axes("dp-tp")),
            Groups({{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
}

TEST(Grid, OrderDecidesStrides) {
  Grid grid = makeGrid({2, 1, 1, 3, 2}, {Axis::DP, Axis::PP, Axis::TP});
  EXPECT_EQ(grid.orderText(), "dp-pp-tp-cp-ep");
  EXPECT_EQ(grid.stride(Axis::DP), 1);
  EXPECT_EQ(grid.stride(Axis::PP), 3);
  EXPECT_EQ(grid.stride(Axis::TP), 6);
  EXPECT_EQ(grid.groups(axes("tp")), Groups({{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(grid.groups(axes("tp-dp")), Groups({{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
}

// By definition, members of a group agree on all other axes. The test enumerates ranks in every
// order by nested loops instead of strides.
TEST(Grid, AllOrdersMatchTheDefinition) {
  std::array<int64_t, numAxes> sizes = {2, 3, 1, 2, 3};
  std::vector<Axis> order(defaultAxisOrder.begin(), defaultAxisOrder.end());
  unsigned orders = 0;
  do {
    ++orders;
    Grid grid = makeGrid(sizes, order);
    std::vector<std::map<Axis, int64_t>> ranks;
    auto extent = [&](int i) { return sizes[unsigned(order[i])]; };
    for (int64_t e = 0; e < extent(4); ++e)
      for (int64_t d = 0; d < extent(3); ++d)
        for (int64_t c = 0; c < extent(2); ++c)
          for (int64_t b = 0; b < extent(1); ++b)
            for (int64_t a = 0; a < extent(0); ++a)
              ranks.push_back(
                  {{order[0], a}, {order[1], b}, {order[2], c}, {order[3], d}, {order[4], e}});
    ASSERT_EQ(grid.worldSize(), int64_t(ranks.size()));
    for (unsigned subset = 0; subset < 1u << numAxes; ++subset) {
      AxisSet set;
      for (Axis axis : defaultAxisOrder)
        if (subset >> unsigned(axis) & 1)
          set.insert(axis);
      // Groups are in the order of their first members, which is that of the other axes'
      // coordinates.
      Groups expected;
      std::map<std::vector<int64_t>, size_t> index;
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        std::vector<int64_t> key;
        for (Axis axis : order)
          if (!set.contains(axis))
            key.push_back(ranks[rank][axis]);
        auto [entry, isNew] = index.try_emplace(key, expected.size());
        if (isNew)
          expected.emplace_back();
        expected[entry->second].push_back(rank);
      }
      ASSERT_EQ(grid.groups(set), expected) << grid.orderText() << " subset " << subset;
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        auto contains = [&](auto &group) { return std::ranges::count(group, int64_t(rank)) == 1; };
        ASSERT_EQ(grid.groupOf(rank, set), *std::ranges::find_if(expected, contains));
      }
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      for (auto [axis, coordinate] : ranks[rank])
        ASSERT_EQ(grid.coordinate(rank, axis), coordinate);
      ASSERT_EQ(grid.rank(grid.coordinates(rank)), int64_t(rank));
    }
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 120u);
}

TEST(Grid, RejectsInvalidGrids) {
  auto errorOf = [](std::array<int64_t, numAxes> sizes, std::vector<Axis> order) {
    std::string error;
    EXPECT_FALSE(Grid::get(sizes, order, error));
    return error;
  };
  EXPECT_EQ(errorOf({2, 1, 1, 1, 1}, {Axis::DP, Axis::PP}),
            "axis 'tp' has 2 ranks but is not in the order");
  EXPECT_EQ(errorOf({1, 1, 1, 1, 1}, {Axis::DP, Axis::DP}), "axis 'dp' occurs twice in the order");
  EXPECT_EQ(errorOf({1, 1, 1, 0, 1}, {Axis::DP}), "axis 'dp' has size 0: it must be at least 1");
  EXPECT_EQ(errorOf({1, 1, 1, -4, 1}, {Axis::DP}), "axis 'dp' has size -4: it must be at least 1");
  EXPECT_EQ(errorOf({1 << 20, 1, 1, 2, 1}, {Axis::TP, Axis::DP}),
            "the grid has more than 1048576 ranks");
  // A product that does not fit into 64 bits.
  EXPECT_EQ(errorOf({INT64_MAX, 1, 1, INT64_MAX, INT64_MAX}, {Axis::TP, Axis::DP, Axis::PP}),
            "the grid has more than 1048576 ranks");
}

TEST(AxisSet, Parses) {
  EXPECT_EQ(axes("tp"), AxisSet({Axis::TP}));
  EXPECT_EQ(axes("dp-tp"), AxisSet({Axis::TP, Axis::DP}));
  for (std::string_view bad : {"", "-", "tp-", "-tp", "tpdp", "TP", "tp-tp", "tp,dp"}) {
    std::string error;
    EXPECT_FALSE(AxisSet::parse(bad, error)) << bad;
    EXPECT_FALSE(error.empty());
  }
}
