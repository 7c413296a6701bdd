//===- DistTest.cpp - Distributed types and views -------------------------===//

#include "tpc/Dialect/Dist.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct Dist : testing::Test {
  Dist() { context.loadDialect<TpcDialect>(); }

  template <typename T> T parse(StringRef text) { return cast<T>(parseAttribute(text, &context)); }
  DimAttr dim(StringRef text) { return parse<DimAttr>(("#tpc.dim<" + text + ">").str()); }
  std::string str(Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream(text) << attribute;
    return text;
  }
  std::string split(StringRef text, std::initializer_list<StringRef> sizes) {
    SmallVector<SymExpr> exprs;
    for (StringRef s : sizes)
      exprs.push_back(*SymExpr::parse(s.str()));
    auto parts = splitDim(dim(text), exprs);
    if (!parts)
      return "none";
    std::string out;
    for (DimAttr p : *parts) {
      std::string one = str(p);
      // "#tpc.dim<batch{dp}>"
      out += (out.empty() ? "" : " | ") + StringRef(one).drop_front(9).drop_back().str();
    }
    return out;
  }
  MLIRContext context;
};
} // namespace

TEST_F(Dist, SplitDimFollowsFactors) {
  EXPECT_EQ(split("b{dp}*s", {"b", "s"}), "b{dp} | s");
  EXPECT_EQ(split("12{tp}*64", {"12", "64"}), "12{tp} | 64");
  EXPECT_EQ(split("b*s*8", {"b", "s", "8"}), "b | s | 8");
  EXPECT_EQ(split("40", {"5", "8"}), "5 | 8");
  EXPECT_EQ(split("12{tp}*64", {"12", "8", "8"}), "12{tp} | 8 | 8");
  // One head over two ranks.
  EXPECT_EQ(split("1{tp}*8", {"1", "8"}), "1{tp} | 8");
  EXPECT_EQ(split("2*1{tp}", {"2", "1"}), "2 | 1{tp}");
}

TEST_F(Dist, SplitDimRejectsFactorsAcrossBorders) {
  EXPECT_EQ(split("(b*s){tp}", {"b", "s"}), "none");
  EXPECT_EQ(split("(b{dp}*s){tp}", {"b", "s"}), "none");
  EXPECT_EQ(split("40{tp}", {"5", "8"}), "none");
  EXPECT_EQ(split("6", {"4", "2"}), "none");
  EXPECT_EQ(split("12", {"5", "8"}), "none");
}

TEST_F(Dist, JoinUndoesSplit) {
  auto parts = splitDim(dim("b{dp}*s*8"), {SymExpr::symbol("b"), SymExpr::symbol("s"), 8});
  ASSERT_TRUE(parts);
  EXPECT_EQ(joinDims(&context, *parts), dim("b{dp}*s*8"));
}

TEST_F(Dist, LocalSizesTile) {
  auto grid = parse<MeshAttr>("#tpc.mesh<tp = 3, dp = 2, mb = 4>");
  std::map<std::string, int64_t> symbols = {{"b", 5}, {"s", 7}};
  for (StringRef text :
       {"b{dp}*s", "(b{dp}*s){tp}", "b{dp, mb}*s", "8{tp}*s", "(b*s){tp}", "1{tp}*8"}) {
    DimAttr d = dim(text);
    int64_t sum = 0;
    for (int64_t tp = 0; tp < 3; ++tp)
      for (int64_t dp = 0; dp < 2; ++dp)
        for (int64_t mb = 0; mb < 4; ++mb)
          if ((tp == 0 || d.usesAxis("tp")) && (dp == 0 || d.usesAxis("dp")) &&
              (mb == 0 || d.usesAxis("mb")))
            sum += *d.getLocalSize(grid, {{"tp", tp}, {"dp", dp}, {"mb", mb}}, symbols);
    EXPECT_EQ(sum, *d.getExpr().evaluate(symbols)) << text.str();
  }
}

TEST_F(Dist, StaticLocalSizesAreEqualOnAllRanks) {
  auto grid = parse<MeshAttr>("#tpc.mesh<tp = 2, dp = 4>");
  EXPECT_EQ(dim("12{tp}*64").getStaticLocalSize(grid), 384);
  EXPECT_EQ(dim("5{tp}*8").getStaticLocalSize(grid), std::nullopt);
  EXPECT_EQ(dim("16{dp, tp}").getStaticLocalSize(grid), 2);
  EXPECT_EQ(dim("b{dp}").getStaticLocalSize(grid), std::nullopt);
}

//===----------------------------------------------------------------------===//
// Views, against indexing
//===----------------------------------------------------------------------===//

/// Returns the weight's element indices that a view selects, in the view's order.
static std::vector<int64_t> elements(ViewAttr view) {
  std::vector<int64_t> list = {view.getOffset()};
  for (unsigned d = 0; d < view.getDims().size(); ++d)
    for (StridedFactorAttr f : view.getFactors(d)) {
      std::vector<int64_t> next;
      for (int64_t base : list)
        for (int64_t i = 0; i < f.getSize(); ++i)
          next.push_back(base + i * f.getStride());
      list = next;
    }
  return list;
}

TEST_F(Dist, ViewsCompose) {
  // GPT-NeoX's fused weight, [8, heads = 4, 3, size = 2]: the keys.
  ViewAttr fused = ViewAttr::getDense(&context, {8, 24});
  ViewAttr split = fused.reshape({8, 4, 3, 2});
  ASSERT_TRUE(split);
  ViewAttr keys = split.slice(2, 1, 1, 1);
  ASSERT_TRUE(keys);
  keys = keys.reshape({8, 8});
  ASSERT_TRUE(keys);
  std::vector<int64_t> expected;
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t head = 0; head < 4; ++head)
      for (int64_t i = 0; i < 2; ++i)
        expected.push_back(row * 24 + head * 6 + 2 + i);
  EXPECT_EQ(elements(keys), expected);
  EXPECT_EQ(keys.getShape(), (SmallVector<int64_t>{8, 8}));

  // The keys of one head are also a slice of its merged columns.
  ViewAttr head1 = keys.slice(1, 2, 2, 1);
  ASSERT_TRUE(head1);
  EXPECT_EQ(elements(head1)[0], 8);
  // Half of a head and half of the next one together are not a view.
  EXPECT_FALSE(keys.slice(1, 1, 2, 1));
}

TEST_F(Dist, ViewsTransposeAndStep) {
  ViewAttr dense = ViewAttr::getDense(&context, {3, 4});
  EXPECT_EQ(elements(dense.transpose({1, 0})),
            (std::vector<int64_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(elements(dense.slice(1, 3, 2, -2)), (std::vector<int64_t>{3, 1, 7, 5, 11, 9}));
  EXPECT_FALSE(dense.slice(1, 3, 2, 1));
  EXPECT_FALSE(dense.transpose({1, 0}).reshape({5, 2}));
  // Row-major order of a transposed view is not contiguous, but still a view.
  ViewAttr flat = dense.transpose({1, 0}).reshape({12});
  ASSERT_TRUE(flat);
  EXPECT_EQ(elements(flat), elements(dense.transpose({1, 0})));
}
