//===- GridTest.cpp - Grids -----------------------------------------------===//

#include "tpc/Support/Grid.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

using namespace tpc;

using Groups = std::vector<std::vector<int64_t>>;
using Order = std::vector<std::string_view>;

static Grid make(const AxisSizes &sizes, const Order &order) {
  std::string error;
  std::optional<Grid> grid = makeGrid(sizes, order, error);
  EXPECT_TRUE(grid) << error;
  return grid.value_or(Grid());
}

static Groups getGroups(const Grid &grid, std::initializer_list<std::string_view> axes) {
  uint32_t mask = 0;
  for (std::string_view axis : axes)
    mask |= grid.maskOf(axis);
  return grid.groups(mask);
}

TEST(Grid, OneRank) {
  Grid grid = make({}, {});
  EXPECT_EQ(grid.numRanks(), 1);
  EXPECT_EQ(getGroups(grid, {"tp", "pp"}), Groups({{0}}));
  EXPECT_EQ(getOrderText(grid), "tp-cp-ep-dp-pp");
  // A grid without axes.
  EXPECT_EQ(Grid().numRanks(), 1);
  EXPECT_EQ(Grid().groups(0), Groups({{0}}));
  EXPECT_EQ(Grid().size("tp"), 1);
  EXPECT_EQ(Grid().maskOf("tp"), 0u);
}

// Megatron's own example: 16 GPUs, tp 2, pp 4, dp 2.
TEST(Grid, ExampleOfMegatron) {
  Grid grid = make({{"tp", 2}, {"dp", 2}, {"pp", 4}}, {"tp", "cp", "ep", "dp", "pp"});
  EXPECT_EQ(getGroups(grid, {"tp"}),
            Groups({{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(getGroups(grid, {"pp"}),
            Groups({{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(getGroups(grid, {"dp"}),
            Groups({{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(getGroups(grid, {"dp", "tp"}),
            Groups({{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
}

TEST(Grid, OrderDecidesStrides) {
  Grid grid = make({{"tp", 2}, {"dp", 3}, {"pp", 2}}, {"dp", "pp", "tp"});
  EXPECT_EQ(getOrderText(grid), "dp-pp-tp-cp-ep");
  EXPECT_EQ(grid.stride("dp"), 1);
  EXPECT_EQ(grid.stride("pp"), 3);
  EXPECT_EQ(grid.stride("tp"), 6);
  EXPECT_EQ(getGroups(grid, {"tp"}), Groups({{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(getGroups(grid, {"tp", "dp"}), Groups({{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
}

// By definition, members of a group agree on all other axes. The test enumerates ranks in every
// order by nested loops instead of strides.
TEST(Grid, AllOrdersMatchTheDefinition) {
  AxisSizes sizes = {{"tp", 2}, {"cp", 3}, {"dp", 2}, {"pp", 3}, {"ep", 1}};
  Order order(defaultAxisOrder.begin(), defaultAxisOrder.end());
  std::ranges::sort(order);
  unsigned orders = 0;
  do {
    ++orders;
    Grid grid = make(sizes, order);
    std::vector<std::map<std::string_view, int64_t>> ranks;
    auto extent = [&](int i) { return sizes.find(order[i])->second; };
    for (int64_t e = 0; e < extent(4); ++e)
      for (int64_t d = 0; d < extent(3); ++d)
        for (int64_t c = 0; c < extent(2); ++c)
          for (int64_t b = 0; b < extent(1); ++b)
            for (int64_t a = 0; a < extent(0); ++a)
              ranks.push_back(
                  {{order[0], a}, {order[1], b}, {order[2], c}, {order[3], d}, {order[4], e}});
    ASSERT_EQ(grid.numRanks(), int64_t(ranks.size()));
    for (uint32_t set = 0; set <= grid.allAxes(); ++set) {
      // Groups are in the order of their first members, which is that of the other axes'
      // coordinates.
      Groups expected;
      std::map<std::vector<int64_t>, size_t> index;
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        std::vector<int64_t> key;
        for (std::string_view axis : order)
          if (!(set & grid.maskOf(axis)))
            key.push_back(ranks[rank][axis]);
        auto [entry, isNew] = index.try_emplace(key, expected.size());
        if (isNew)
          expected.emplace_back();
        expected[entry->second].push_back(rank);
      }
      ASSERT_EQ(grid.groups(set), expected) << grid.label(set);
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        Group group = grid.groupOf(rank, set);
        ASSERT_EQ(group.ranks[group.index], int(rank));
        std::vector<int64_t> members(group.ranks.begin(), group.ranks.end());
        ASSERT_EQ(std::ranges::count(expected, members), 1);
      }
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      for (auto [axis, coordinate] : ranks[rank])
        ASSERT_EQ(grid.coordinate(rank, axis), coordinate);
      ASSERT_EQ(grid.rankOf(grid.coordinatesOf(rank)), int64_t(rank));
    }
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 120u);
}

TEST(Grid, RejectsInvalidGrids) {
  auto errorOf = [](const AxisSizes &sizes, const Order &order) {
    std::string error;
    EXPECT_FALSE(makeGrid(sizes, order, error));
    return error;
  };
  EXPECT_EQ(errorOf({{"tp", 2}}, {"dp", "pp"}), "axis 'tp' has 2 ranks but is not in the order");
  EXPECT_EQ(errorOf({}, {"dp", "dp"}), "axis 'dp' occurs twice in the order");
  EXPECT_EQ(errorOf({{"dp", 0}}, {"dp"}), "axis 'dp' has size 0: it must be at least 1");
  EXPECT_EQ(errorOf({{"dp", -4}}, {"dp"}), "axis 'dp' has size -4: it must be at least 1");
  EXPECT_EQ(errorOf({{"tp", 1 << 20}, {"dp", 2}}, {"tp", "dp"}),
            "the grid has more than 1048576 ranks");
  // A product that does not fit into 64 bits.
  EXPECT_EQ(errorOf({{"tp", INT64_MAX}, {"dp", INT64_MAX}, {"pp", INT64_MAX}}, {"tp", "dp", "pp"}),
            "the grid has more than 1048576 ranks");
}
