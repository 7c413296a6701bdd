//===- RankSizesTest.cpp - Sizes per rank ---------------------------------===//

#include "tpc/Dialect/RankSizes.h"

#include "mlir/AsmParser/AsmParser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
class RankSizes : public ::testing::Test {
protected:
  RankSizes() {
    context.loadDialect<TpcDialect>();
    grid = parse<MeshAttr>("#tpc.mesh<tp = 4, cp = 1, ep = 1, dp = 2, pp = 1, mb = 1>");
  }

  template <typename AttrT> AttrT parse(StringRef text) {
    auto attr = dyn_cast_or_null<AttrT>(parseAttribute(text, &context));
    EXPECT_TRUE(attr) << text.str();
    return attr;
  }
  DimAttr dim(StringRef text) {
    return parse<DistAttr>(("#tpc.dist<[" + text + "], local>").str()).getDims()[0];
  }
  std::string size(StringRef text) { return getLocalSize(dim(text), grid).str(); }
  std::string value(StringRef text) {
    return substituteNumbers(getLocalSize(dim(text), grid), grid).str();
  }

  MLIRContext context;
  MeshAttr grid;
};
} // namespace

TEST_F(RankSizes, StaticSizesHaveNames) {
  EXPECT_EQ(size("768"), "_768");
  EXPECT_EQ(size("1"), "1");
  EXPECT_EQ(size("8*batch"), SymExpr::parse("_8*batch")->str());
  EXPECT_EQ(toNamedSize(*SymExpr::parse("2*past + 1")).str(), SymExpr::parse("2*past + 1")->str());
  EXPECT_EQ(value("768"), "768");
  EXPECT_EQ(value("8*batch"), "8*batch");
}

TEST_F(RankSizes, EvenPartsHaveNames) {
  EXPECT_EQ(size("12{tp}"), "_12.tp");
  EXPECT_EQ(value("12{tp}"), "3");
  EXPECT_EQ(size("16{tp, dp}"), "_16.tp.dp");
  EXPECT_EQ(value("16{tp, dp}"), "2");
  EXPECT_EQ(getShardBegin(toNamedSize(12), "tp", grid).str(), "_12.tp*rank.tp");
}

TEST_F(RankSizes, UnevenPartsDependOnTheRank) {
  // 10 over 4 ranks are 3, 3, 2 and 2 elements, from 0, 3, 6 and 8 on.
  SymExpr n = toNamedSize(10), size = getShardSize(n, "tp", grid),
          begin = getShardBegin(n, "tp", grid);
  int64_t sizes[] = {3, 3, 2, 2}, begins[] = {0, 3, 6, 8};
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(substituteNumbers(size, grid).evaluate({{"rank.tp", rank}}), sizes[rank]);
    EXPECT_EQ(substituteNumbers(begin, grid).evaluate({{"rank.tp", rank}}), begins[rank]);
    // The same expressions hold for another size and another grid: 5 over 2 ranks.
    std::map<std::string, int64_t> other{{"_10", 5}, {"ranks.tp", 2}, {"rank.tp", rank % 2}};
    EXPECT_EQ(size.evaluate(other), rank % 2 ? 2 : 3);
    EXPECT_EQ(begin.evaluate(other), rank % 2 ? 3 : 0);
  }
}

TEST_F(RankSizes, SizesEqualOnAllRanksAreConstants) {
  // A rank of tp has 4 * 3 elements. dp splits them: 12 / 2.
  EXPECT_EQ(value("(16{tp} * 3){dp}"), "6");
  EXPECT_EQ(value("(16{tp} * 5){dp}"), "10");
  EXPECT_NE(value("(4{tp} * 5){dp}").find("rank.dp"), std::string::npos);
  EXPECT_EQ(substituteNumbers(SymExpr::min(getCoordinate("tp", grid), 3), grid).str(), "rank.tp");
  EXPECT_EQ(substituteNumbers(SymExpr::max(getCoordinate("tp", grid), 3), grid).str(), "3");
}

TEST_F(RankSizes, OffsetsHaveNames) {
  EXPECT_EQ(getNamedOffset(128, 384).str(), "_384.at128");
  EXPECT_EQ(substituteNumbers(getNamedOffset(128, 384), grid).str(), "128");
  EXPECT_EQ(getNamedOffset(0, 384).str(), "0");
  EXPECT_EQ(getNamedOffset(384, 384).str(), "_384");
}

TEST_F(RankSizes, NamesAreParsed) {
  auto part = getNamedSize("_16.tp.dp");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->kind, NamedSize::Size);
  EXPECT_EQ(part->size, 16);
  EXPECT_EQ(part->axes, (SmallVector<StringRef, 2>{"tp", "dp"}));
  EXPECT_EQ(getNamedSize("_384.at128")->offset, 128);
  EXPECT_EQ(getNamedSize("rank.tp")->kind, NamedSize::Rank);
  EXPECT_EQ(getNamedSize("ranks.tp")->kind, NamedSize::Ranks);
  for (StringRef other : {"batch", "_", "_x", "_12x", "_12.", "_12..tp", "rank", "rank."})
    EXPECT_FALSE(getNamedSize(other)) << other.str();
}

TEST_F(RankSizes, NamesOfWindowsDifferFromSizes) {
  SymExpr window = getNamedWindow(16);
  EXPECT_EQ(window.str(), "window.16");
  EXPECT_EQ(substituteNumbers(SymExpr::symbol("past") - window, grid).str(), "past - 16");
  EXPECT_EQ(getNamedSize("window.16")->kind, NamedSize::Window);
  EXPECT_EQ(getNamedSize("window.16")->size, 16);
  EXPECT_NE(window.str(), toNamedSize(16).str());
  // Symbols do not change, including names in models that look like generated ones.
  EXPECT_EQ(getNamedWindow(SymExpr::symbol("past")).str(), "past");
  for (StringRef name : {"window", "window.", "window.x", "window.0", "window.-1", "windows.3"})
    EXPECT_FALSE(getNamedSize(name)) << name.str();
}
