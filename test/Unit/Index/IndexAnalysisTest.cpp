//===- IndexAnalysisTest.cpp - Values as functions of their indices -------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

#include <array>
#include <random>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

struct IndexAnalysisTest : testing::Test {
  IndexAnalysisTest() {
    DialectRegistry registry;
    registerIndexModels(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<TpcDialect, func::FuncDialect>();
  }

  /// Returns the value that a function with this argument list and body returns.
  Value parse(const std::string &arguments, const std::string &body, const std::string &type) {
    std::string text = "func.func @f(" + arguments + ") -> " + type + " {\n" + body +
                       "\nreturn %r : " + type + "\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return {};
    auto function = *module->getOps<func::FuncOp>().begin();
    return function.getBody().front().getTerminator()->getOperand(0);
  }
  /// Returns the expression of the result's element at its own indices.
  std::string at(Value v) {
    analysis.emplace(getSizes(v));
    return analysis->at(v, analysis->getIndices()).str();
  }
  static SymExpr expr(const char *text) { return *SymExpr::parse(text); }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::optional<IndexAnalysis> analysis;
};

const char *const kRow = "tensor<?xi64, #tpc.dist<[s]>>";
const char *const kLonger = "tensor<?xi64, #tpc.dist<[\"s + 1\"]>>";

TEST_F(IndexAnalysisTest, RangesDecideSigns) {
  IndexAnalysis a({expr("b"), expr("s"), expr("p + s")});
  EXPECT_TRUE(a.isNonNegative(expr("s - 1 - _i1")));
  EXPECT_TRUE(a.isNonNegative(expr("b*s - 1 - (_i0*s + _i1)")));
  EXPECT_TRUE(a.isNonNegative(expr("p + s - 1 - _i2")));
  EXPECT_FALSE(a.isNonNegative(expr("_i1 - _i2")));
  EXPECT_FALSE(a.isNonNegative(expr("s - 2")));
  EXPECT_FALSE(a.isNonNegative(expr("p - 1"))); // a past may be empty
  EXPECT_EQ(a.upperBound(expr("2*_i1 - _i0"))->str(), "2*s - 2");
}

TEST_F(IndexAnalysisTest, DivisionSeparatesIndices) {
  IndexAnalysis a({expr("b"), expr("p + s")});
  SymExpr flat = expr("_i0*(p + s) + _i1");
  EXPECT_EQ(a.floorDiv(flat, expr("p + s")).str(), "_i0");
  EXPECT_EQ(a.mod(flat, expr("p + s")).str(), "_i1");
  // The next element may be in the next row.
  EXPECT_NE(a.mod(flat + 1, expr("p + s")).str(), "_i1 + 1");
}

// positions[j] - positions[j - 1], with -1 before the first position, is 1 everywhere.
TEST_F(IndexAnalysisTest, DifferencesOfPositions) {
  Value v = parse("",
                  std::string("%i = tpc.iota dim 0 : ") + kRow + R"(
    %n = tpc.constant dense<-1> : tensor<1xi64> : tensor<1xi64>
    %c = tpc.concat %n, %i dim 0 : tensor<1xi64>, )" +
                      kRow + " -> " + kLonger + R"(
    %a = tpc.slice %c dim 0 from "0" : )" +
                      kLonger + " -> " + kRow + R"(
    %b = tpc.slice %c dim 0 from "1" : )" +
                      kLonger + " -> " + kRow + R"(
    %r = tpc.sub %b, %a : )" +
                      kRow + ", " + kRow + " -> " + kRow,
                  kRow);
  ASSERT_TRUE(v);
  EXPECT_EQ(at(v), "1");
}

// An element of an input is an atom with its indices. The analysis follows ops that only move
// elements.
TEST_F(IndexAnalysisTest, InputsStayElements) {
  Value v = parse(std::string("%m: ") + kRow,
                  std::string("%t = tpc.slice %m dim 0 from \"0\" step 1 : ") + kRow + " -> " +
                      kRow + "\n%r = tpc.cumsum %t dim 0 : " + kRow + " -> " + kRow,
                  kRow);
  ASSERT_TRUE(v);
  IndexAnalysis a(getSizes(v));
  IndexExpr e = a.at(v, a.getIndices());
  ASSERT_TRUE(e.isInteger());
  const IndexExpr *element = a.getElement(e.str());
  ASSERT_NE(element, nullptr);
  EXPECT_EQ(element->getTensor(), v); // an element of the sum, not of the input
  EXPECT_FALSE(a.isNonNegative(e.getPolynomial()));
}

TEST_F(IndexAnalysisTest, RunningSumOfConstant) {
  Value v = parse("",
                  std::string("%o = tpc.constant dense<3> : tensor<i64> : tensor<i64>\n"
                              "%e = tpc.expand %o : tensor<i64> -> ") +
                      kRow + "\n%r = tpc.cumsum %e dim 0 : " + kRow + " -> " + kRow,
                  kRow);
  ASSERT_TRUE(v);
  EXPECT_EQ(at(v), "3*_i0 + 3");
}

// Indices that count from the end are resolved. A gather by an index of unknown sign stays.
TEST_F(IndexAnalysisTest, GatherWraps) {
  Value v = parse("%m: tensor<4xi1>", R"(
    %i = tpc.iota dim 0 : tensor<4xi64>
    %n = tpc.constant dense<-4> : tensor<i64> : tensor<i64>
    %k = tpc.add %i, %n : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
    %r = tpc.gather %m, %k dim 0 : tensor<4xi1>, tensor<4xi64> -> tensor<4xi1>)",
                  "tensor<4xi1>");
  ASSERT_TRUE(v);
  IndexAnalysis a(getSizes(v));
  IndexExpr e = a.at(v, a.getIndices());
  ASSERT_EQ(e.getKind(), IndexExpr::Kind::Element);
  EXPECT_TRUE(isa<BlockArgument>(e.getTensor()));
  EXPECT_EQ(e.getArgs()[0].str(), "_i0");
}

// For constant triangles and bands of all shapes, also with one changed element, the expression is
// compared with the elements.
TEST_F(IndexAnalysisTest, ConstantMatrices) {
  OpBuilder builder(&context);
  auto makeElement = [&](int rows, int columns, ArrayRef<bool> values, IndexAnalysis &a) {
    auto type = RankedTensorType::get({rows, columns}, builder.getI1Type());
    auto op = ConstantOp::create(builder, builder.getUnknownLoc(), type,
                                 DenseElementsAttr::get(type, values));
    IndexExpr e = a.at(op, a.getIndices());
    op->erase();
    return e;
  };
  for (int rows = 2; rows <= 4; ++rows)
    for (int columns = 2; columns <= 4; ++columns)
      for (int first = -rows; first <= columns; ++first)
        for (int last = first - 1; last <= columns; ++last) {
          SmallVector<bool> values;
          for (int r = 0; r < rows; ++r)
            for (int c = 0; c < columns; ++c)
              values.push_back(first <= c - r && c - r <= last);
          IndexAnalysis a({SymExpr(rows), SymExpr(columns)});
          IndexExpr e = makeElement(rows, columns, values, a);
          ASSERT_TRUE(e);
          for (int r = 0; r < rows; ++r)
            for (int c = 0; c < columns; ++c) {
              IndexExpr one = a.substitute(a.substitute(e, "_i0", r), "_i1", c);
              ASSERT_EQ(one.getConstant(), (double)values[r * columns + c])
                  << rows << "x" << columns << " " << first << " to " << last << ": " << e.str();
            }
          if (rows < 3 || columns < 3)
            continue;
          values[columns + 1] = !values[columns + 1];
          IndexAnalysis other({SymExpr(rows), SymExpr(columns)});
          ASSERT_EQ(makeElement(rows, columns, values, other).getKind(), IndexExpr::Kind::Element)
              << first << " to " << last;
        }
}

// BLOOM's positions without masked tokens are a running sum of ones, also in floats.
TEST_F(IndexAnalysisTest, RunningSumsOfOnes) {
  for (const char *number : {"1.0", "0.5"}) {
    Value v = parse("",
                    std::string("%c = tpc.constant dense<") + number +
                        R"(> : tensor<f32> : tensor<f32>
    %0 = tpc.expand %c : tensor<f32> -> tensor<?xf32, #tpc.dist<[s]>>
    %r = tpc.cumsum %0 dim 0 : tensor<?xf32, #tpc.dist<[s]>> -> tensor<?xf32, #tpc.dist<[s]>>)",
                    "tensor<?xf32, #tpc.dist<[s]>>");
    ASSERT_TRUE(v);
    analysis.emplace(getSizes(v));
    IndexExpr e = analysis->at(v, analysis->getIndices());
    EXPECT_EQ(e.isInteger(), number == std::string("1.0"));
    EXPECT_TRUE(!e.isInteger() || e.str() == "_i0 + 1") << e.str();
  }
}

// After a past, query i sees the keys of the past, and new keys up to its own: all keys up to past
// + i.
TEST_F(IndexAnalysisTest, OneOfTwoBoundsIsEnough) {
  IndexAnalysis a({expr("s"), expr("p + s")});
  auto atMost = [&](const char *text) { return a.compare(Predicate::LE, expr(text)); };
  IndexExpr past = atMost("_i1 - p + 1"), causal = atMost("_i1 - _i0 - p");
  EXPECT_EQ(a.disjunction({past, causal}), causal);
  EXPECT_EQ(a.conjunction({past, causal}), past);
  // A window implies a longer one, so the shorter one remains. Unrelated conditions both remain.
  EXPECT_EQ(a.conjunction({atMost("_i0 - _i1 - 3"), atMost("_i0 - _i1 - 5")}).str(),
            "_i0 - _i1 - 3 <= 0");
  EXPECT_EQ(a.conjunction({causal, atMost("_i0 - _i1 - 5")}).getArgs().size(), 2u);
}

// A product of a number for each head and the key's index, computed in several steps.
TEST_F(IndexAnalysisTest, ProductsOfElementsAndIndices) {
  const char *type = "tensor<?x4x1x?xf32, #tpc.dist<[b, 4, 1, s]>>";
  Value v = parse("%slopes: tensor<4x1xf32>", R"(
    %half = tpc.constant dense<-0.5> : tensor<f32> : tensor<f32>
    %one = tpc.size "s - 1" : tensor<i64>
    %j = tpc.iota dim 2 : tensor<?x1x?xi64, #tpc.dist<[b, 1, s]>>
    %d = tpc.sub %one, %j : tensor<i64>, tensor<?x1x?xi64, #tpc.dist<[b, 1, s]>> -> tensor<?x1x?xi64, #tpc.dist<[b, 1, s]>>
    %f = tpc.cast %d : tensor<?x1x?xi64, #tpc.dist<[b, 1, s]>> -> tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>>
    %0 = tpc.mul %f, %half : tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>>, tensor<f32> -> tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>>
    %1 = tpc.mul %slopes, %0 : tensor<4x1xf32>, tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>> -> tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>>
    %2 = tpc.neg %1 : tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>> -> tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>>
    %3 = tpc.reshape %2 : tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>> -> tensor<?x?xf32, #tpc.dist<[4*b, s]>>
    %r = tpc.reshape %3 : tensor<?x?xf32, #tpc.dist<[4*b, s]>> -> tensor<?x4x1x?xf32, #tpc.dist<[b, 4, 1, s]>>)",
                  type);
  ASSERT_TRUE(v);
  analysis.emplace(getSizes(v));
  IndexExpr e = analysis->at(v, analysis->getIndices());
  ASSERT_EQ(e.getKind(), IndexExpr::Kind::Scaled);
  EXPECT_EQ(e.getNumber(), -0.5);
  EXPECT_EQ(e.getPolynomial(), expr("_i3 - s + 1"));
  ASSERT_EQ(e.getArgs().size(), 1u);
  EXPECT_EQ(e.getArgs()[0].getArgs()[0].str(), "_i1");
  std::set<std::string> symbols;
  analysis->collectSymbols(e, symbols);
  EXPECT_EQ(symbols, (std::set<std::string>{"_i1", "_i3", "s"}));
  IndexExpr first = analysis->substitute(e, "_i3", expr("0"));
  EXPECT_EQ(first.getPolynomial(), expr("1 - s"));
}

// A constant table of slope * key has the same form: an element of one column times the distance
// from the column of zeros.
TEST_F(IndexAnalysisTest, TablesOfProducts) {
  Value v = parse("", R"(
    %r = tpc.constant dense<[[-1.5, -1.0, -0.5, 0.0], [-0.3000001, -0.2, -0.1, 0.0]]> : tensor<2x4xf32> : tensor<2x4xf32>)",
                  "tensor<2x4xf32>");
  ASSERT_TRUE(v);
  analysis.emplace(getSizes(v));
  IndexExpr e = analysis->at(v, analysis->getIndices());
  // A few changed bits make it another table, whose elements have no such form.
  EXPECT_EQ(e.getKind(), IndexExpr::Kind::Element);
  v = parse("", R"(
    %r = tpc.constant dense<[[-1.5, -1.0, -0.5, 0.0], [-0.75, -0.5, -0.25, 0.0]]> : tensor<2x4xf32> : tensor<2x4xf32>)",
            "tensor<2x4xf32>");
  analysis.emplace(getSizes(v));
  e = analysis->at(v, analysis->getIndices());
  ASSERT_EQ(e.getKind(), IndexExpr::Kind::Scaled);
  EXPECT_EQ(e.getNumber(), -1);
  EXPECT_EQ(e.getPolynomial(), expr("_i1 - 3"));
  EXPECT_EQ(e.getArgs()[0].getArgs()[1].str(), "2");
}

// OPT's mask is the lowest float where causality hides a key. The padding input is added to it.
// Where the sum is zero, the mask is replaced by the lowest float. A key is visible where the
// result is zero.
TEST_F(IndexAnalysisTest, LowestFloatAbsorbsAddends) {
  Value v = parse("%mask: tensor<?x?xi64, #tpc.dist<[b, s]>>", R"(
    %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
    %least = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
    %j = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[s]>>
    %0 = tpc.expand %least : tensor<f32> -> tensor<?x?xf32, #tpc.dist<[s, s]>>
    %1 = tpc.trilu upper %0 k "1" : tensor<?x?xf32, #tpc.dist<[s, s]>> -> tensor<?x?xf32, #tpc.dist<[s, s]>>
    %i = tpc.reshape %j : tensor<?xi64, #tpc.dist<[s]>> -> tensor<?x1xi64, #tpc.dist<[s, 1]>>
    %2 = tpc.cmp gt %j, %i : tensor<?xi64, #tpc.dist<[s]>>, tensor<?x1xi64, #tpc.dist<[s, 1]>> -> tensor<?x?xi1, #tpc.dist<[s, s]>>
    %3 = tpc.cast %2 : tensor<?x?xi1, #tpc.dist<[s, s]>> -> tensor<?x?xf32, #tpc.dist<[s, s]>>
    %4 = tpc.mul %1, %3 : tensor<?x?xf32, #tpc.dist<[s, s]>>, tensor<?x?xf32, #tpc.dist<[s, s]>> -> tensor<?x?xf32, #tpc.dist<[s, s]>>
    %5 = tpc.reshape %4 : tensor<?x?xf32, #tpc.dist<[s, s]>> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
    %6 = tpc.reshape %mask : tensor<?x?xi64, #tpc.dist<[b, s]>> -> tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>>
    %7 = tpc.cast %6 : tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>> -> tensor<?x1x1x?xf32, #tpc.dist<[b, 1, 1, s]>>
    %8 = tpc.add %5, %7 : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>, tensor<?x1x1x?xf32, #tpc.dist<[b, 1, 1, s]>> -> tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>>
    %9 = tpc.cmp eq %8, %zero : tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>>, tensor<f32> -> tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>
    %10 = tpc.select %9, %least, %5 : tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>, tensor<f32>, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>>
    %r = tpc.cmp eq %10, %zero : tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>>, tensor<f32> -> tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>)",
                  "tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>");
  ASSERT_TRUE(v);
  EXPECT_EQ(at(v), "(-_i2 + _i3 <= 0 and _e0 != 0)");
}

// Terms that others imply are dropped. The value stays the same at all indices.
TEST_F(IndexAnalysisTest, ImpliedTermsAreDropped) {
  IndexAnalysis a({expr("s"), expr("p + s")});
  auto atMost = [&](const char *text) { return a.compare(Predicate::LE, expr(text)); };
  IndexExpr causal = atMost("_i1 - _i0"), later = a.negation(causal);
  IndexExpr behind = atMost("_i1 - _i0 - p"), odd = a.compare(Predicate::EQ, expr("m - 1"));
  // GPT-J's mask after a past: a triangle from 0 on, and the part before it.
  IndexExpr both =
      a.disjunction({a.conjunction({behind, odd, later}), a.conjunction({causal, odd})});
  EXPECT_EQ(both, a.conjunction({behind, odd}));
  EXPECT_EQ(a.disjunction({a.conjunction({causal, odd}), odd}), odd);
  EXPECT_EQ(a.conjunction({a.disjunction({causal, odd}), odd}), odd);
  IndexExpr choice = a.select(later, a.disjunction({odd, a.negation(behind)}), odd);
  EXPECT_EQ(a.conjunction({choice, behind}), a.conjunction({behind, odd}));
}

TEST_F(IndexAnalysisTest, SimplificationPreservesTruthTables) {
  constexpr int size = 4;
  std::mt19937 random(7);
  auto draw = [&](int n) { return int(random() % n); };
  struct Truth {
    IndexExpr e;
    std::array<bool, size * size> at;
  };
  for (int trial = 0; trial < 3000; ++trial) {
    IndexAnalysis a({SymExpr(size), SymExpr(size)});
    auto index = [](int d) { return SymExpr::symbol(IndexAnalysis::indexName(d)); };
    std::vector<Truth> made;
    for (int k = 0; k < 4; ++k) {
      int c0 = draw(3) - 1, c1 = draw(3) - 1, c = draw(7) - 3;
      Predicate predicate = draw(3) ? Predicate::LE : Predicate::EQ;
      Truth truth;
      truth.e = a.compare(predicate, index(0) * SymExpr(c0) + index(1) * SymExpr(c1) + SymExpr(c));
      for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j) {
          int value = c0 * i + c1 * j + c;
          truth.at[i * size + j] = predicate == Predicate::LE ? value <= 0 : value == 0;
        }
      made.push_back(truth);
    }
    for (int step = 0; step < 6; ++step) {
      const Truth x = made[draw(made.size())], y = made[draw(made.size())];
      const Truth z = made[draw(made.size())];
      Truth truth;
      int kind = draw(4);
      truth.e = kind == 0   ? a.conjunction({x.e, y.e, z.e})
                : kind == 1 ? a.disjunction({x.e, y.e, z.e})
                : kind == 2 ? a.negation(x.e)
                            : a.select(x.e, y.e, z.e);
      for (int i = 0; i < size * size; ++i)
        truth.at[i] = kind == 0   ? x.at[i] && y.at[i] && z.at[i]
                      : kind == 1 ? x.at[i] || y.at[i] || z.at[i]
                      : kind == 2 ? !x.at[i]
                      : x.at[i]   ? y.at[i]
                                  : z.at[i];
      made.push_back(truth);
      for (int i = 0; i < size * size; ++i) {
        IndexExpr here =
            a.substitute(a.substitute(truth.e, "_i0", SymExpr(i / size)), "_i1", SymExpr(i % size));
        ASSERT_TRUE(here.isTrue() || here.isFalse()) << truth.e.str();
        ASSERT_EQ(here.isTrue(), truth.at[i])
            << truth.e.str() << " at " << i / size << ", " << i % size;
      }
    }
  }
}

} // namespace
