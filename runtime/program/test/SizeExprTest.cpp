//===- SizeExprTest.cpp - Symbolic sizes ----------------------------------===//

#include "program/SizeExpr.h"
#include "program/Error.h"
#include <gtest/gtest.h>

using namespace tpc::rt;

namespace {

const SymbolValues symbols = {{"batch", 3}, {"sequence", 10}, {"past_length", 0}};

std::string refusal(const std::string &text) {
  try {
    evaluateSize(text, symbols);
  } catch (const UserError &error) {
    return error.what();
  }
  return "no error";
}

TEST(SizeExpr, Evaluates) {
  for (auto [text, value] : std::vector<std::pair<std::string, int64_t>>{
           {"7", 7},
           {"batch", 3},
           {"batch*sequence + 2*sequence", 50},
           {"batch - sequence - 1", -8},
           {"2 + 3 * 4", 14},
           {"(2 + 3) * 4", 20},
           {"-(batch)", -3},
           {"2*-batch", -6},
           {"floordiv(sequence, batch)", 3},
           {"floordiv(-sequence, batch)", -4},
           {"mod(-sequence, batch)", 2},
           {"mod(sequence, 5)", 0},
           {"sequence floordiv 4 * 4", 8},
           {"sequence mod 4 + 1", 3},
           {"min(batch, sequence) + max(batch, 2*batch)", 9},
           {"past_length + sequence", 10},
           {" ( batch ) ", 3}})
    EXPECT_EQ(evaluateSize(text, symbols), value) << text;
}

TEST(SizeExpr, Refuses) {
  for (auto [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "ends too early"},
           {"2 +", "ends too early"},
           {"heads", "no value for 'heads'"},
           {"batch sequence", "unexpected 's'"},
           {"(batch", "expected ')'"},
           {"min(batch)", "expected ','"},
           {"sin(batch)", "unknown function 'sin'"},
           {"batch floordiv past_length", "divides by 0"},
           {"mod(batch, 0 - 3)", "divides by -3"},
           {"9223372036854775807 + batch", "does not fit"},
           {"9223372036854775808", "does not fit"},
           {"4611686018427387904 * batch", "does not fit"},
           {"batch ^ 2", "unexpected '^'"},
           {std::string(100000, '('), "nested too deeply"},
           {std::string(100000, '-') + "1", "nested too deeply"}})
    EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text).substr(0, 200);
}

TEST(SizeExpr, Symbols) {
  EXPECT_EQ(symbolsOf("min(a.b*c, 3) floordiv c"), (std::set<std::string>{"a.b", "c"}));
  EXPECT_EQ(soleSymbol("past_sequence.1"), "past_sequence.1");
  EXPECT_EQ(soleSymbol("a + b"), "");
  EXPECT_EQ(soleSymbol("17"), "");
}

} // namespace
