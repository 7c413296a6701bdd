//===- ShardSpecTest.cpp - Shard specifications ---------------------------===//

#include "tpc/Support/ShardSpec.h"

#include <algorithm>

#include <gtest/gtest.h>

using namespace tpc;

static ShardSpec parse(std::string_view text) {
  std::string error;
  std::optional<ShardSpec> spec = ShardSpec::parse(text, error);
  EXPECT_TRUE(spec) << text << ": " << error;
  return spec.value_or(ShardSpec());
}

static std::string errorOf(std::string_view text) {
  std::string error;
  EXPECT_FALSE(ShardSpec::parse(text, error)) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

/// Checks the column, the item and the message of an error.
static void expectError(std::string_view text, unsigned column, std::string_view item,
                        std::string_view cause) {
  std::string error = errorOf(text);
  std::string start = "column " + std::to_string(column) + ": '" + std::string(item) + "': ";
  EXPECT_TRUE(error.starts_with(start)) << error;
  EXPECT_NE(error.find(cause), std::string::npos) << error;
}

TEST(ShardSpec, TensorAndPipeline) {
  ShardSpec spec = parse("tp8,pp4");
  EXPECT_EQ(spec.grid.size("tp"), 8);
  EXPECT_EQ(spec.grid.size("pp"), 4);
  EXPECT_EQ(spec.grid.numRanks(), 32);
  EXPECT_FALSE(spec.sequenceParallel);
  EXPECT_EQ(spec.microBatches, 1);
  EXPECT_FALSE(spec.allowReshard);
  EXPECT_TRUE(spec.notes.empty());
  EXPECT_EQ(spec.str(), "tp8,pp4");
}

TEST(ShardSpec, Everything) {
  ShardSpec spec = parse("allow-reshard, mb8 ,order=dp-tp-pp,sp,dp3,pp2,tp2");
  EXPECT_EQ(spec.grid.size("dp"), 3);
  EXPECT_EQ(spec.grid.stride("tp"), 3);
  EXPECT_TRUE(spec.sequenceParallel);
  EXPECT_TRUE(spec.allowReshard);
  EXPECT_EQ(spec.microBatches, 8);
  EXPECT_EQ(spec.str(), "tp2,pp2,dp3,sp,mb8,order=dp-tp-pp-cp-ep,allow-reshard");
}

TEST(ShardSpec, Manual) {
  EXPECT_FALSE(parse("tp2").manual);
  EXPECT_TRUE(parse("manual,tp2").manual);
  EXPECT_EQ(parse("manual,tp2").str(), "tp2,manual");
  expectError("tp2,manual,manual", 12, "manual", "'manual' is given twice");
}

TEST(ShardSpec, CanonicalTextRoundTrips) {
  for (std::string_view text : {"tp1", "tp2", "pp4", "dp2,tp02", "tp2,sp", "mb4", "tp2,order=tp",
                                "dp2,order=pp-dp", "cp1,ep1,vpp1", "allow-reshard"}) {
    std::string canonical = parse(text).str();
    EXPECT_EQ(parse(canonical).str(), canonical) << text;
    EXPECT_EQ(parse(canonical).grid, parse(text).grid) << text;
  }
  EXPECT_EQ(parse("pp1,dp1").str(), "tp1");
  EXPECT_EQ(parse("tp2,order=tp-cp-ep-dp-pp").str(), "tp2");
}

TEST(ShardSpec, NotesSequenceParallelismWithoutTp) {
  for (std::string_view text : {"sp", "dp2,sp", "tp1,sp"}) {
    ShardSpec spec = parse(text);
    EXPECT_FALSE(spec.sequenceParallel);
    ASSERT_EQ(spec.notes.size(), 1u);
    EXPECT_NE(spec.notes[0].find("'sp' has no effect"), std::string::npos);
  }
}

TEST(ShardSpec, RejectsAxesThatOnlyGroupsSupport) {
  expectError("tp2,cp2", 5, "cp2", "no tactic splits a program over shards of the context (cp)");
}

TEST(ShardSpec, ChunksOfRanks) {
  EXPECT_EQ(parse("pp2,vpp2,mb4").chunksPerRank, 2);
  EXPECT_EQ(parse("vpp4,tp2,pp4").str(), "tp2,pp4,vpp4");
  EXPECT_EQ(parse("pp2,vpp1").str(), "pp2");
  std::string error = errorOf("tp2,vpp2");
  EXPECT_NE(error.find("write pp2,vpp2, or remove vpp2"), std::string::npos) << error;
}

// Partitioning uses the atoms of the dense and the expert grid as axes. Without dp, ep is an axis
// of its own.
TEST(ShardSpec, ExpertsOfRanks) {
  struct Case {
    std::string_view text, axes; // axes of more than one rank, by ascending stride
    int64_t ep, etp;
  };
  for (const Case &c :
       {Case{"ep4", "ep4", 4, 1}, Case{"tp2,ep2", "tp2 ep2", 2, 2},
        Case{"tp2,ep2,etp1", "tp_ep2", 2, 1}, Case{"tp2,ep4,etp1", "tp_ep2 ep2", 4, 1},
        Case{"pp2,ep2,mb2", "ep2 pp2", 2, 1}, Case{"tp2,ep2,etp1,dp2", "tp_ep2 dp2", 2, 1},
        Case{"ep2,pp2,order=tp-ep-pp", "ep2 pp2", 2, 1}, Case{"tp2,ep4,dp4", "tp2 dp_ep4", 4, 2},
        Case{"tp2,dp2,ep4,etp1", "tp_ep2 dp_ep2", 4, 1},
        Case{"tp2,ep2,dp4", "tp2 dp_ep2 dp_edp2", 2, 2},
        Case{"tp2,dp4,ep4,etp1", "tp_ep2 dp_ep2 dp_edp2", 4, 1},
        Case{"ep2,dp4,pp2,order=tp-ep-dp-pp", "dp_ep2 dp_edp2 pp2", 2, 1},
        Case{"ep2,dp4,order=tp-dp-ep-pp", "dp_edp2 dp_ep2", 2, 1},
        Case{"tp4,ep2,etp2", "tp_etp2 tp_ep2", 2, 2},
        Case{"tp4,ep2,etp2,dp2", "tp_etp2 tp_ep2 dp2", 2, 2},
        Case{"tp4,ep4,etp2,dp2", "tp_etp2 tp_ep2 dp_ep2", 4, 2},
        Case{"tp4,ep4,etp2,dp4", "tp_etp2 tp_ep2 dp_ep2 dp_edp2", 4, 2},
        Case{"tp6,ep4,etp3", "tp_etp3 tp_ep2 ep2", 4, 3}}) {
    ShardSpec spec = parse(c.text);
    std::string axes;
    for (const MeshAtom &atom : spec.axes())
      if (atom.size > 1)
        axes += (axes.empty() ? "" : " ") + atom.name + std::to_string(atom.size);
    EXPECT_EQ(axes, c.axes) << c.text;
    EXPECT_EQ(spec.experts.size("ep"), c.ep) << c.text;
    EXPECT_EQ(spec.experts.size("tp"), c.etp) << c.text;
    EXPECT_EQ(parse(spec.str()).grid, spec.grid) << c.text;
    EXPECT_EQ(parse(spec.str()).experts, spec.experts) << c.text;
  }
  for (auto [text, cause] :
       {std::pair("tp4,ep2,etp3",
                  "etp3 does not divide tp4, and the ranks that split an expert are "
                  "ranks of tp; the nearest that fits is tp4,ep2"),
        std::pair("tp2,etp1", "ep1 is not a multiple of tp/etp = 2, so that ranks of tp would have "
                              "the same experts; the nearest that fits is tp2,ep2,etp1"),
        std::pair("etp2", "etp2 does not divide tp1"),
        std::pair("ep4,dp6", "the replicas of dp6 cannot form groups of 4"),
        std::pair("ep4,dp6", "the nearest that fits is dp6,ep3"),
        std::pair("ep4,dp2", "the nearest that fits is dp2,ep2"),
        std::pair("ep2,dp2,mb2", "with mb2 is not supported; remove mb or dp"),
        std::pair("tp2x2,ep2", "two-dimensional tp"),
        std::pair("tp2,dp2,ep2,etp1,order=tp-dp-ep-pp", "in this order")}) {
    std::string error = errorOf(text);
    EXPECT_NE(error.find(cause), std::string::npos) << error;
  }
}

// The groups over the atoms of an axis equal the groups of the axis in its grid.
TEST(ShardSpec, GroupsOfViews) {
  int accepted = 0;
  for (int64_t tp : {1, 2, 4, 6})
    for (int64_t etp = 1; etp <= tp; ++etp)
      for (int64_t ep : {1, 2, 3, 4, 8})
        for (int64_t dp : {1, 2, 4, 6})
          for (std::string_view order :
               {"tp-cp-ep-dp-pp", "tp-ep-dp-pp", "tp-dp-ep-pp", "dp-tp-pp", "pp-tp-ep-dp",
                "ep-tp-dp-pp", "tp-pp-ep-dp", "tp-dp-pp-ep"}) {
            std::string error, text = "tp" + std::to_string(tp) + ",pp2,ep" + std::to_string(ep) +
                                      ",etp" + std::to_string(etp) + ",dp" + std::to_string(dp) +
                                      ",order=" + std::string(order);
            std::optional<ShardSpec> spec = ShardSpec::parse(text, error);
            if (!spec)
              continue;
            ++accepted;
            Grid mesh = getGrid(spec->axes());
            auto check = [&](std::string_view view, const Grid &grid, std::string_view axis) {
              uint32_t chosen = 0;
              for (const MeshAtom &atom : spec->getView(view))
                chosen |= mesh.maskOf(atom.name);
              EXPECT_EQ(mesh.groups(chosen), grid.groups(grid.maskOf(axis))) << text << view;
            };
            check("tp", spec->grid, "tp");
            check("dp", spec->grid, "dp");
            check("pp", spec->grid, "pp");
            check("pp", spec->experts, "pp");
            check("etp", spec->experts, "tp");
            check("ep", spec->experts, "ep");
            check("edp", spec->experts, "dp");
          }
  EXPECT_GT(accepted, 300);
}

static ShardSpec parseGroups(std::string_view text) {
  std::string error;
  std::optional<ShardSpec> spec = ShardSpec::parse(text, error, ShardSpec::For::Groups);
  EXPECT_TRUE(spec) << text << ": " << error;
  return spec.value_or(ShardSpec());
}

TEST(ShardSpec, Experts) {
  ShardSpec spec = parseGroups("tp2,cp2,dp4,pp3,ep8,etp1");
  EXPECT_EQ(spec.grid.numRanks(), 48);
  EXPECT_EQ(spec.grid.size("ep"), 1);
  EXPECT_EQ(spec.experts.numRanks(), 48);
  EXPECT_EQ(spec.experts.size("tp"), 1);
  EXPECT_EQ(spec.experts.size("ep"), 8);
  EXPECT_EQ(spec.experts.size("dp"), 2);
  EXPECT_EQ(spec.experts.size("cp"), 1);
  EXPECT_EQ(spec.str(), "tp2,pp3,dp4,cp2,ep8,etp1");
  EXPECT_EQ(parseGroups(spec.str()).experts, spec.experts);

  // The default of etp is tp.
  EXPECT_EQ(parseGroups("tp2,cp2,ep2").experts.size("tp"), 2);
  EXPECT_EQ(parseGroups("tp2,cp2,ep2").str(), "tp2,cp2,ep2");
  EXPECT_EQ(parseGroups("tp4,etp2").str(), "tp4,etp2");

  std::string error;
  EXPECT_FALSE(ShardSpec::parse("tp2,cp2,ep4", error, ShardSpec::For::Groups));
  EXPECT_EQ(error, "'tp2,cp2,ep4': experts need ranks for etp 2 · ep 4 · pp 1 = 8, but the 4 "
                   "ranks of tp · cp · dp · pp are not a multiple of that; use another ep, or set "
                   "the number of ranks that split an expert, such as etp1");
  EXPECT_FALSE(ShardSpec::parse("dp2,etp4", error, ShardSpec::For::Groups));
  EXPECT_EQ(error, "'dp2,etp4': experts need ranks for etp 4 · ep 1 · pp 1 = 4, but the 2 "
                   "ranks of tp · cp · dp · pp are not a multiple of that; use another ep");
}

// The grid of experts has the same order of axes. Each rank is in both grids, for every order.
TEST(ShardSpec, ExpertsInAllOrders) {
  std::vector<std::string_view> order(defaultAxisOrder.begin(), defaultAxisOrder.end());
  std::ranges::sort(order);
  do {
    std::string text = "tp4,cp3,dp2,pp2,ep6,etp2,order=";
    for (std::string_view axis : order)
      text += std::string(axis) + (axis == order.back() ? "" : "-");
    ShardSpec spec = parseGroups(text);
    std::string error;
    std::optional<Grid> expected =
        makeGrid({{"tp", 2}, {"ep", 6}, {"dp", 2}, {"pp", 2}}, order, error);
    ASSERT_TRUE(expected) << error;
    EXPECT_EQ(spec.experts, *expected) << text;
  } while (std::ranges::next_permutation(order).found);
}

// A note reports what Megatron-Core's initialize_model_parallel rejects: grids with different
// pipelines, and, unless the order ends with pp or there is one stage, different dp and edp.
TEST(ShardSpec, NotesSpecsThatMegatronRejects) {
  unsigned accepted = 0, replicas = 0, pipelines = 0;
  std::vector<std::string_view> order(defaultAxisOrder.begin(), defaultAxisOrder.end());
  std::ranges::sort(order);
  do {
    std::string names;
    for (std::string_view axis : order)
      names += (names.empty() ? "" : "-") + std::string(axis);
    for (unsigned sizes = 0; sizes < 64; ++sizes) {
      int64_t tp = sizes & 1 ? 2 : 1, cp = sizes & 2 ? 2 : 1, dp = sizes & 4 ? 2 : 1,
              pp = sizes & 8 ? 2 : 1, ep = sizes & 16 ? 2 : 1, etp = sizes & 32 ? 2 : 1;
      if (tp * cp * dp % (ep * etp))
        continue;
      std::string text = "tp" + std::to_string(tp) + ",cp" + std::to_string(cp) + ",dp" +
                         std::to_string(dp) + ",pp" + std::to_string(pp) + ",ep" +
                         std::to_string(ep) + ",etp" + std::to_string(etp) + ",order=" + names;
      ShardSpec spec = parseGroups(text);
      bool sameReplicas = names.ends_with("pp") || pp == 1 || tp * cp * dp / (ep * etp) == dp;
      bool samePipelines = spec.grid.groups(spec.grid.maskOf("pp")) ==
                           spec.experts.groups(spec.experts.maskOf("pp"));
      EXPECT_EQ(spec.notes.empty(), sameReplicas && samePipelines) << text;
      ++(!samePipelines ? pipelines : !sameReplicas ? replicas : accepted);
    }
  } while (std::ranges::next_permutation(order).found);
  EXPECT_TRUE(accepted && replicas && pipelines);
}

TEST(ShardSpec, TwoDimensions) {
  ShardSpec spec = parse("dp2,tp2x4,order=dp-tp");
  EXPECT_TRUE(spec.isTensor2D());
  EXPECT_EQ(spec.grid.size("tp"), 8);
  EXPECT_EQ(spec.tensorX, 2);
  EXPECT_EQ(spec.tensorY, 4);
  std::string axes;
  for (const ShardSpec::NamedAxis &axis : spec.axes())
    axes += axis.name + std::to_string(axis.size) + " ";
  EXPECT_EQ(axes, "dp2 tpx2 tpy4 cp1 ep1 pp1 ");
  EXPECT_EQ(spec.str(), "tp2x4,dp2,order=dp-tp-cp-ep-pp");
  EXPECT_FALSE(parse("tp8").isTensor2D());
  EXPECT_EQ(parse("tp1x4").str(), "tp1x4");
  EXPECT_EQ(parse("tp1x1").str(), "tp1");

  ShardSpec sequence = parse("tp2x2,sp");
  EXPECT_FALSE(sequence.sequenceParallel);
  ASSERT_EQ(sequence.notes.size(), 1u);
  EXPECT_NE(sequence.notes[0].find("'sp' has no effect: with tp2x2"), std::string::npos);

  expectError("tp2x0", 1, "tp2x0", "the number must be at least 1");
  expectError("tp2x2x2", 1, "tp2x2x2", "'2x2' is not a number; write tp2x and a number");
  expectError("tp1024x2048", 1, "tp1024x2048", "more than 1048576 ranks");
  expectError("tp2x2,tp4", 7, "tp4", "axis 'tp' is given twice");
  expectError("dp2x2", 1, "dp2x2", "only tp has two dimensions, such as tp2x4");
}

TEST(ShardSpec, Nodes) {
  EXPECT_EQ(parse("tp8").gpusPerNode, 0);
  ShardSpec spec = parse("gpus-per-node=8,tp8,dp2");
  EXPECT_EQ(spec.gpusPerNode, 8);
  EXPECT_EQ(spec.str(), "tp8,dp2,gpus-per-node=8");
  expectError("gpus-per-node=0", 1, "gpus-per-node=0", "must be at least 1");
  expectError("gpus-per-node=", 1, "gpus-per-node=",
              "the number is missing; write "
              "gpus-per-node= and a number");
  expectError("gpus-per-node8", 1, "gpus-per-node8", "such as gpus-per-node=8");
  expectError("gpus-per-node=8,gpus-per-node=8", 17, "gpus-per-node=8", "is given twice");
}

TEST(ShardSpec, Malformed) {
  EXPECT_EQ(errorOf(""), "it is empty; write how many ranks each axis has, for example tp8,pp4 or "
                         "tp2,pp2,dp2,sp,mb4 (tp1: one rank)");
  expectError(",", 1, "", "an item is missing");
  expectError("tp2,", 5, "", "an item is missing");
  expectError("tp2,,pp2", 5, "", "an item is missing");
  expectError("tp2, ,pp2", 6, "", "an item is missing");
  expectError("tp", 1, "tp", "the number is missing; write tp and a number, such as tp2");
  expectError("pp2,  tp=2", 7, "tp=2", "'=2' is not a number; write tp and a number");
  expectError("tp2.5", 1, "tp2.5", "is not a number");
  expectError("tp-2", 1, "tp-2", "'-2' is not a number");
  expectError("tp+2", 1, "tp+2", "is not a number");
  expectError("tp 2", 1, "tp 2", "is not a number");
  expectError("tp2x", 1, "tp2x", "is not a number");
  expectError("mb", 1, "mb", "write mb and a number, such as mb2");
  expectError("sp2", 1, "sp2", "takes no number");
  expectError("8tp", 1, "8tp", "unknown item; expected tpN, ppN, vppN, dpN, epN, etpN, sp, mbN");
  expectError("TP8", 1, "TP8", "small letters, for example tp8,pp4");
  expectError("tp2;pp2", 1, "tp2;pp2", "is not a number");
  expectError("reshard", 1, "reshard", "unknown item");
  expectError("order", 1, "order", "such as order=tp-dp-pp");
  expectError(std::string_view("t\0p", 3), 1, "t\\x00p", "unknown item");
  expectError("tp\n2", 1, "tp\\x0a2", "is not a number");
  expectError(std::string(1000, 'x'), 1, std::string(40, 'x') + "…", "unknown item");
}

TEST(ShardSpec, Numbers) {
  expectError("tp0", 1, "tp0", "must be at least 1");
  expectError("mb0", 1, "mb0", "must be at least 1");
  expectError("tp1048577", 1, "tp1048577", "too large: at most 1048576");
  expectError("tp" + std::string(30, '9'), 1, "tp" + std::string(30, '9'), "too large");
  expectError("mb" + std::string(30, '9'), 1, "mb" + std::string(30, '9'), "too large");
  EXPECT_EQ(errorOf("tp1048576,pp2"), "'tp1048576,pp2': the grid has more than 1048576 ranks");
  EXPECT_EQ(parse("tp1048576").grid.numRanks(), 1048576);
}

TEST(ShardSpec, Duplicates) {
  expectError("tp2,tp2", 5, "tp2", "axis 'tp' is given twice");
  expectError("tp1,pp2,tp2", 9, "tp2", "axis 'tp' is given twice");
  expectError("sp,tp2,sp", 8, "sp", "'sp' is given twice");
  expectError("mb2,mb4", 5, "mb4", "'mb' is given twice");
  expectError("order=tp,order=tp", 10, "order=tp", "the order is given twice");
  expectError("allow-reshard,allow-reshard", 15, "allow-reshard", "is given twice");
}

TEST(ShardSpec, Order) {
  expectError("tp2,order=tp-xp", 5, "order=tp-xp", "'xp' is not an axis");
  expectError("order=", 1, "order=", "'' is not an axis");
  expectError("order=tp-", 1, "order=tp-", "'' is not an axis");
  expectError("order=tp-tp", 1, "order=tp-tp", "axis 'tp' occurs twice in the order");
  expectError("order=tp:dp", 1, "order=tp:dp", "'tp:dp' is not an axis");
  EXPECT_EQ(errorOf("tp2,pp2,order=tp-dp"),
            "'tp2,pp2,order=tp-dp': axis 'pp' has 2 ranks but is not in the order; an order names "
            "every axis that has more than one rank, such as order=tp-cp-ep-dp-pp");
}

TEST(ShardSpec, NotesTooManyRanks) {
  std::string error;
  EXPECT_TRUE(ShardSpec::parse("tp8,pp16,dp64", error)->notes.empty());
  auto spec = ShardSpec::parse("dp100000", error);
  ASSERT_EQ(spec->notes.size(), 1u);
  EXPECT_NE(spec->notes[0].find("100000 ranks need one process each"), std::string::npos);
  EXPECT_TRUE(ShardSpec::parse("dp100000", error, ShardSpec::For::Groups)->notes.empty());
}
