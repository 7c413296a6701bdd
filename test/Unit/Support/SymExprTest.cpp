//===- SymExprTest.cpp - Symbolic sizes -----------------------------------===//

#include "tpc/Support/SymExpr.h"

#include <gtest/gtest.h>
#include <random>

using tpc::SymExpr;

static std::string canonical(const char *text) {
  auto e = SymExpr::parse(text);
  return e ? e->str() : "error";
}

static std::string errorOf(const std::string &text) {
  std::string message;
  EXPECT_FALSE(SymExpr::parse(text, &message)) << text;
  return message;
}

TEST(SymExpr, CanonicalText) {
  EXPECT_EQ(canonical("s*b"), "b*s");
  EXPECT_EQ(canonical("past_sequence_length + sequence_length"),
            "past_sequence_length + sequence_length");
  EXPECT_EQ(canonical("((seq**2)//seq)"), "seq");
  EXPECT_EQ(canonical("1 + s + s - 2*s"), "1");
  EXPECT_EQ(canonical("-(s - 3)"), "-s + 3");
  EXPECT_EQ(canonical("2*(b + s)*b"), "2*b*b + 2*b*s");
  EXPECT_EQ(canonical("(4*b) floordiv 2"), "2*b");
  EXPECT_EQ(canonical("s // 2"), "floordiv(s, 2)");
  EXPECT_EQ(canonical("s % 1"), "0");
  EXPECT_EQ(canonical("7 // 2 + 7 mod 2"), "4");
  EXPECT_EQ(canonical("min(s, s + 1)"), "s");
  // Exporters write ends of slices in this form.
  EXPECT_EQ(canonical("min(9223372036854775807, s - b)"), "-b + s");
  EXPECT_EQ(canonical("max(s - b, 9223372036854775807)"), "9223372036854775807");
  EXPECT_EQ(canonical("max(128, s)"), "max(128, s)");
  EXPECT_EQ(canonical("modulus"), "modulus"); // a word, not an operator
}

TEST(SymExpr, TextIsParsedAgain) {
  for (const char *text : {"0", "-7", "b*s + 3", "floordiv(b + s, 4)*s - 2*min(b, s)", "mod(s, 8)",
                           "max(floordiv(s, 2), b)"})
    EXPECT_EQ(canonical(canonical(text).c_str()), canonical(text)) << text;
}

TEST(SymExpr, Errors) {
  EXPECT_EQ(errorOf(""), "unexpected end at column 1 of ''");
  EXPECT_EQ(errorOf("b +"), "unexpected end at column 4 of 'b +'");
  EXPECT_EQ(errorOf("b $ s"), "unexpected '$' at column 3 of 'b $ s'");
  EXPECT_EQ(errorOf("s // 0"), "division by zero at column 7 of 's // 0'");
  EXPECT_EQ(errorOf("foo(1, 2)"), "unknown function 'foo' at column 10 of 'foo(1, 2)'");
  EXPECT_NE(errorOf("99999999999999999999").find("64 bits"), std::string::npos);
  EXPECT_NE(errorOf("9223372036854775807*2").find("64 bits"), std::string::npos);
  EXPECT_NE(errorOf(std::string(100000, '(')).find("too deeply"), std::string::npos);
  EXPECT_NE(errorOf("s ** 9").find("exponent"), std::string::npos);
}

TEST(SymExpr, Division) {
  SymExpr b = SymExpr::symbol("b"), s = SymExpr::symbol("s");
  EXPECT_EQ((b * s).divideExact(s)->str(), "b");
  EXPECT_EQ((6 * b * s).divideExact(4 * s), std::nullopt);
  EXPECT_EQ((2 * (b + s)).divideExact(b + s)->str(), "2");
  EXPECT_EQ((b * s + s).divideExact(s)->str(), "b + 1");
  EXPECT_EQ(b.divideExact(s), std::nullopt);
  EXPECT_EQ(b.divideExact(SymExpr(0)), std::nullopt);
  EXPECT_EQ(SymExpr(0).divideExact(b)->str(), "0");
  EXPECT_EQ(SymExpr(INT64_MIN).divideExact(SymExpr(-1)), std::nullopt);
}

TEST(SymExpr, DivisionBySums) {
  SymExpr b = SymExpr::symbol("b"), p = SymExpr::symbol("past"), s = SymExpr::symbol("s");
  // The elements of a cache, divided by those of one head.
  EXPECT_EQ((16 * b * (p + s)).divideExact(4 * p + 4 * s)->str(), "4*b");
  EXPECT_EQ(SymExpr::floorDiv(b * (p + s), p + s).str(), "b");
  EXPECT_EQ(((b - s) * (b + s)).divideExact(b - s)->str(), "b + s");
  EXPECT_EQ((b * (p + s) + 1).divideExact(p + s), std::nullopt);
  EXPECT_EQ((2 * b * (p + s)).divideExact(4 * (p + s)), std::nullopt);
  // Some names begin with others, so an order of terms by text could differ from that by atoms.
  std::vector<SymExpr> sums;
  for (const char *name : {"a", "ab", "a.z", "z"})
    sums.push_back(SymExpr::symbol(name) + (sums.empty() ? SymExpr(3) : sums.back()));
  for (const SymExpr &x : sums)
    for (const SymExpr &y : sums)
      EXPECT_EQ((x * y).divideExact(y), x) << x.str() << " times " << y.str();
}

// The canonical order is by atoms, as in long division. An order by text would put `max*` after
// `max(`.
TEST(SymExpr, TermsAreOrderedByAtoms) {
  SymExpr x = SymExpr::symbol("max") + 1;
  SymExpr y = SymExpr::symbol("t") + *SymExpr::parse("max(b, s)");
  EXPECT_EQ((x * y).str(), "max*max(b, s) + max*t + max(b, s) + t");
  EXPECT_EQ((x * y).divideExact(y), x);
  EXPECT_EQ((x * y).divideExact(x), y);
}

TEST(SymExpr, CopiesAreIndependent) {
  SymExpr b = SymExpr::symbol("b"), sum = b + 300, copy = sum;
  sum = sum * sum - copy;
  EXPECT_EQ(copy.str(), "b + 300");
  EXPECT_EQ(copy, b + 300);
  EXPECT_EQ(copy.substitute({{"b", copy}}).str(), "b + 600");
  EXPECT_EQ(copy.str(), "b + 300");
}

TEST(SymExpr, LowerBound) {
  SymExpr s = SymExpr::symbol("s");
  EXPECT_EQ((s + 3).lowerBound(), 3);
  EXPECT_EQ((2 * s + 3).lowerBound(1), 5);
  EXPECT_EQ((3 + s - s).lowerBound(), 3);
  EXPECT_EQ((s - 2 * s).lowerBound(), std::nullopt);
}

TEST(SymExpr, OverflowIsUnequalToAll) {
  SymExpr big(INT64_MAX);
  SymExpr e = big * SymExpr(2);
  EXPECT_TRUE(e.isOverflow());
  EXPECT_FALSE(e == e);
  EXPECT_EQ(e.evaluate({}), std::nullopt);
  EXPECT_EQ((SymExpr::symbol("s") * SymExpr(INT64_MAX)).evaluate({{"s", 2}}), std::nullopt);
}

// Simplification preserves values.
TEST(SymExpr, SimplificationPreservesValues) {
  std::mt19937 random(1);
  auto draw = [&](int n) { return (int)(random() % n); };
  for (int round = 0; round < 500; ++round) {
    std::map<std::string, int64_t> values = {{"a", draw(5)}, {"b", draw(7)}};
    std::vector<std::pair<SymExpr, int64_t>> known = {{SymExpr::symbol("a"), values["a"]},
                                                      {SymExpr::symbol("b"), values["b"]},
                                                      {SymExpr(draw(9)), 0}};
    known[2].second = *known[2].first.asConstant();
    for (int step = 0; step < 6; ++step) {
      auto [x, vx] = known[draw(known.size())];
      auto [y, vy] = known[draw(known.size())];
      auto floor = [](int64_t p, int64_t q) { return p / q - (p % q != 0 && p < 0 ? 1 : 0); };
      switch (draw(7)) {
      case 0:
        known.push_back({x + y, vx + vy});
        break;
      case 1:
        known.push_back({x - y, vx - vy});
        break;
      case 2:
        known.push_back({x * y, vx * vy});
        break;
      case 3:
        known.push_back({SymExpr::min(x, y), std::min(vx, vy)});
        break;
      case 4:
        known.push_back({SymExpr::max(x, y), std::max(vx, vy)});
        break;
      case 5:
        known.push_back({SymExpr::floorDiv(x, SymExpr(3)), floor(vx, 3)});
        break;
      case 6:
        known.push_back({SymExpr::mod(x, SymExpr(3)), vx - 3 * floor(vx, 3)});
        break;
      }
      auto value = known.back().first.evaluate(values);
      ASSERT_TRUE(value) << known.back().first.str();
      ASSERT_EQ(*value, known.back().second)
          << known.back().first.str() << " at a=" << values["a"] << " b=" << values["b"];
      auto bound = known.back().first.lowerBound();
      if (bound)
        ASSERT_LE(*bound, known.back().second) << known.back().first.str();
      auto again = SymExpr::parse(known.back().first.str());
      ASSERT_TRUE(again && *again == known.back().first);
    }
  }
}

TEST(Split, ShardsTileTheDimension) {
  for (int64_t n : {0, 1, 5, 7, 64, 50257})
    for (int64_t parts : {1, 2, 3, 8, 100}) {
      int64_t next = 0;
      for (int64_t c = 0; c < parts; ++c) {
        EXPECT_EQ(tpc::shardBegin(n, parts, c), next);
        next += tpc::shardSize(n, parts, c);
      }
      EXPECT_EQ(next, n);
    }
}
