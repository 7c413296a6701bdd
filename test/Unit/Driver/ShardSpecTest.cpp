//===- ShardSpecTest.cpp ---------------------------------------------------===//

#include "tpc/Driver/ShardSpec.h"

#include <gtest/gtest.h>

using namespace tpc;

static ShardSpec parse(std::string_view text) {
  std::string error;
  std::optional<ShardSpec> spec = ShardSpec::parse(text, error);
  EXPECT_TRUE(spec) << text << ": " << error;
  return spec.value_or(ShardSpec());
}

static std::string refusal(std::string_view text) {
  std::string error;
  EXPECT_FALSE(ShardSpec::parse(text, error)) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

/// Column and cause of a refusal.
static void expectRefusal(std::string_view text, unsigned column, std::string_view item,
                          std::string_view cause) {
  std::string error = refusal(text);
  std::string start = "column " + std::to_string(column) + ": '" + std::string(item) + "': ";
  EXPECT_TRUE(error.starts_with(start)) << error;
  EXPECT_NE(error.find(cause), std::string::npos) << error;
}

TEST(ShardSpec, TensorAndPipeline) {
  ShardSpec spec = parse("tp8,pp4");
  EXPECT_EQ(spec.grid.size(Axis::TP), 8);
  EXPECT_EQ(spec.grid.size(Axis::PP), 4);
  EXPECT_EQ(spec.grid.worldSize(), 32);
  EXPECT_FALSE(spec.sequenceParallel);
  EXPECT_EQ(spec.microBatches, 1);
  EXPECT_FALSE(spec.allowReshard);
  EXPECT_TRUE(spec.notes.empty());
  EXPECT_EQ(spec.str(), "tp8,pp4");
}

TEST(ShardSpec, Everything) {
  ShardSpec spec = parse("allow-reshard, mb8 ,order=dp-tp-pp,sp,dp3,pp2,tp2");
  EXPECT_EQ(spec.grid.size(Axis::DP), 3);
  EXPECT_EQ(spec.grid.stride(Axis::TP), 3);
  EXPECT_TRUE(spec.sequenceParallel);
  EXPECT_TRUE(spec.allowReshard);
  EXPECT_EQ(spec.microBatches, 8);
  EXPECT_EQ(spec.str(), "tp2,pp2,dp3,sp,mb8,order=dp-tp-pp-cp-ep,allow-reshard");
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

TEST(ShardSpec, SequenceParallelismAloneIsNoted) {
  for (std::string_view text : {"sp", "dp2,sp", "tp1,sp"}) {
    ShardSpec spec = parse(text);
    EXPECT_FALSE(spec.sequenceParallel);
    ASSERT_EQ(spec.notes.size(), 1u);
    EXPECT_NE(spec.notes[0].find("'sp' has no effect"), std::string::npos);
  }
}

TEST(ShardSpec, LaterStages) {
  expectRefusal("tp2,cp2", 5, "cp2", "context parallelism (cp) belongs to a later stage");
  expectRefusal("ep4", 1, "ep4", "expert parallelism (ep) belongs to a later stage");
  expectRefusal("tp8,pp4,vpp2", 9, "vpp2", "interleaving the pipeline (vpp) belongs to a later");
  expectRefusal("etp2", 1, "etp2", "belongs to a later stage");
  expectRefusal("tp2x4", 1, "tp2x4", "two dimensions (tp2x4) belongs to a later stage");
  std::string error;
  EXPECT_TRUE(ShardSpec::parse("tp2,cp2,ep4", error, ShardSpec::For::Groups)) << error;
}

TEST(ShardSpec, Malformed) {
  EXPECT_EQ(refusal(""), "it is empty; write how many ranks each axis has, for example tp8,pp4 or "
                         "tp2,pp2,dp2,sp,mb4 (tp1: one rank)");
  expectRefusal(",", 1, "", "an item is missing");
  expectRefusal("tp2,", 5, "", "an item is missing");
  expectRefusal("tp2,,pp2", 5, "", "an item is missing");
  expectRefusal("tp2, ,pp2", 6, "", "an item is missing");
  expectRefusal("tp", 1, "tp", "the number is missing; write tp and a number, such as tp2");
  expectRefusal("pp2,  tp=2", 7, "tp=2", "'=2' is not a number; write tp and a number");
  expectRefusal("tp2.5", 1, "tp2.5", "is not a number");
  expectRefusal("tp-2", 1, "tp-2", "'-2' is not a number");
  expectRefusal("tp+2", 1, "tp+2", "is not a number");
  expectRefusal("tp 2", 1, "tp 2", "is not a number");
  expectRefusal("tp2x", 1, "tp2x", "is not a number");
  expectRefusal("mb", 1, "mb", "write mb and a number, such as mb2");
  expectRefusal("sp2", 1, "sp2", "takes no number");
  expectRefusal("8tp", 1, "8tp", "unknown item; expected tpN, ppN, dpN, sp, mbN");
  expectRefusal("TP8", 1, "TP8", "small letters, for example tp8,pp4");
  expectRefusal("tp2;pp2", 1, "tp2;pp2", "is not a number");
  expectRefusal("reshard", 1, "reshard", "unknown item");
  expectRefusal("order", 1, "order", "such as order=tp-dp-pp");
  expectRefusal(std::string_view("t\0p", 3), 1, "t\\x00p", "unknown item");
  expectRefusal("tp\n2", 1, "tp\\x0a2", "is not a number");
  expectRefusal(std::string(1000, 'x'), 1, std::string(40, 'x') + "…", "unknown item");
}

TEST(ShardSpec, Numbers) {
  expectRefusal("tp0", 1, "tp0", "must be at least 1");
  expectRefusal("mb0", 1, "mb0", "must be at least 1");
  expectRefusal("tp1048577", 1, "tp1048577", "too large: at most 1048576");
  expectRefusal("tp" + std::string(30, '9'), 1, "tp" + std::string(30, '9'), "too large");
  expectRefusal("mb" + std::string(30, '9'), 1, "mb" + std::string(30, '9'), "too large");
  EXPECT_EQ(refusal("tp1048576,pp2"), "'tp1048576,pp2': the grid has more than 1048576 ranks");
  EXPECT_EQ(parse("tp1048576").grid.worldSize(), 1048576);
}

TEST(ShardSpec, Duplicates) {
  expectRefusal("tp2,tp2", 5, "tp2", "axis 'tp' is given twice");
  expectRefusal("tp1,pp2,tp2", 9, "tp2", "axis 'tp' is given twice");
  expectRefusal("sp,tp2,sp", 8, "sp", "'sp' is given twice");
  expectRefusal("mb2,mb4", 5, "mb4", "'mb' is given twice");
  expectRefusal("order=tp,order=tp", 10, "order=tp", "the order is given twice");
  expectRefusal("allow-reshard,allow-reshard", 15, "allow-reshard", "is given twice");
}

TEST(ShardSpec, Order) {
  expectRefusal("tp2,order=tp-xp", 5, "order=tp-xp", "'xp' is not an axis");
  expectRefusal("order=", 1, "order=", "'' is not an axis");
  expectRefusal("order=tp-", 1, "order=tp-", "'' is not an axis");
  expectRefusal("order=tp-tp", 1, "order=tp-tp", "axis 'tp' is twice in the order");
  expectRefusal("order=tp:dp", 1, "order=tp:dp", "'tp:dp' is not an axis");
  EXPECT_EQ(refusal("tp2,pp2,order=tp-dp"),
            "'tp2,pp2,order=tp-dp': axis 'pp' has 2 ranks but is not in the order; an order names "
            "every axis that has more than one rank, such as order=tp-cp-ep-dp-pp");
}
